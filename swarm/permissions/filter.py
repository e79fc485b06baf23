"""Decides which tools an agent gets, by a pipeline of layers that can only remove tools.

The order is fixed: (1) tools that no sub-agent has, (2) tools for shipped definitions only, (3) the
background's allow-list, (4) the definition's own lists, (5) writing tools for read-only definitions, and
the shell without a read-only sandbox, (6) depth. A definition's lists act in layer 4 alone and never
bring a tool back.

The filter decides only about whole tools; calls are judged when they are made. Here `tools: Bash(git log:*)`
keeps Bash, and `disallowedTools: Bash(rm *)` does not remove it. For the same reason plan mode keeps `Write`
and `Edit`: each call is limited to the plan's file, and an approved plan needs no other tools.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarm.definitions.model import AgentDefinition, PermissionMode
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.tools import QUESTION, matches_tool, row_of
from swarm.permissions.rules import Rule


@dataclass(frozen=True)
class Situation:
    """The input of the layers: the definition, and the agent's place in its job."""

    definition: AgentDefinition
    depth: int
    max_depth: int
    is_root: bool
    background: bool = False
    mode: PermissionMode | None = None
    """The mode in force, if not the definition's own (children inherit a parent's `plan`)."""
    sandbox: bool = False
    """Read-only and planning agents have a sandbox in which they cannot write, so they get a shell."""

    @property
    def is_program(self) -> bool:
        """A program's questions wait as records, wherever it is in the tree."""
        return self.definition.workflow is not None

    @property
    def planning(self) -> bool:
        """Plan mode is in force."""
        return (self.mode or self.definition.permission_mode) == "plan"


def filter_tools(available: Sequence[str], situation: Situation) -> list[str]:
    """Return the tools of `available` that the agent gets, in order."""
    return [tool for tool in available if _removing_layer(tool, situation) is None]


def explain_tools(available: Sequence[str], situation: Situation) -> list[tuple[str, str]]:
    """Return the tools that the agent does not get, each with the first layer that removes it."""
    return [(tool, layer) for tool in available if (layer := _removing_layer(tool, situation)) is not None]


# -- the layers: each returns whether the tool stays ---------------------------------------------------------


def _fits_subagent(tool: str, situation: Situation) -> bool:
    row = row_of(tool)
    # In plan mode an agent can hand its plan in; the call decides whether that ends the mode.
    planned = row.while_planning and situation.planning
    return situation.is_root or not row.root_only or planned or (situation.is_program and tool == QUESTION)


def _fits_origin(tool: str, situation: Situation) -> bool:
    # A file in a repository must not switch a person's mode, or create and delete teams in their job.
    return situation.definition.source == "shipped" or not row_of(tool).shipped_only


def _fits_background(tool: str, situation: Situation) -> bool:
    return not situation.background or row_of(tool).in_background or (situation.is_program and tool == QUESTION)


def _is_not_disallowed(tool: str, situation: Situation) -> bool:
    entries = (split_pattern(entry) for entry in situation.definition.disallowed_tools)
    rules = [Rule(action="deny", tool=canonical_tool(name), source="") for name, spec in entries if spec is None]
    return not any(rule.names_tool(tool) for rule in rules)


def _is_listed(tool: str, situation: Situation) -> bool:
    if row_of(tool).needs == "memory":
        # Requested by its own key instead of the list.
        return situation.definition.memory is not None
    tools = situation.definition.tools
    if tools is None:
        return True
    names = [canonical_tool(split_pattern(entry)[0]) for entry in tools]
    return any(matches_tool(name, given) for name in names for given in (tool, row_of(tool).comes_with) if given)


def _fits_read_only(tool: str, situation: Situation) -> bool:
    row = row_of(tool)
    # No sandbox restricts the effects of an external tool's function.
    return not situation.definition.read_only or not (row.writes_files or (row.origin and row.has_effects))


def _fits_sandbox(tool: str, situation: Situation) -> bool:
    only_reads = situation.definition.read_only or situation.planning
    return situation.sandbox or not only_reads or not row_of(tool).needs_shell


def _fits_depth(tool: str, situation: Situation) -> bool:
    return situation.depth < situation.max_depth or not row_of(tool).adds_agents


LAYERS: tuple[tuple[str, Callable[[str, Situation], bool]], ...] = (
    ("no sub-agent has it", _fits_subagent),
    ("only shipped definitions get it", _fits_origin),
    ("not in the background", _fits_background),
    ("in disallowedTools", _is_not_disallowed),
    ("not in tools", _is_listed),
    ("read-only", _fits_read_only),
    ("no sandbox", _fits_sandbox),
    ("nesting limit", _fits_depth),
)
"""The layers in order, each with its explanation for people."""


def _removing_layer(tool: str, situation: Situation) -> str | None:
    return next((name for name, stays in LAYERS if not stays(tool, situation)), None)
