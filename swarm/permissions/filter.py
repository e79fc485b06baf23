"""Decides which tools an agent gets: a pipeline of layers, each of which can only take away.

The order is fixed: (1) tools that no sub-agent has, (2) tools for shipped definitions only, (3) the
background's allow-list, (4) the definition's own lists, (5) what may write, for read-only definitions, and
the shell, where nothing holds it to reading, (6) depth. A definition speaks in layer 4 alone, and there too
only about what is left: nothing that it lists brings a tool back.

This is about the presence of a tool. What `Bash(git log:*)` allows or forbids about a call is judged when the
call is made; here `tools: Bash(git log:*)` keeps Bash, and `disallowedTools: Bash(rm *)` does not take it
away. For the same reason plan mode leaves `Write` and `Edit`: that they touch nothing but the plan's file is
judged at the call, and approval of the plan needs no other tools.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from swarm.definitions.model import AgentDefinition, PermissionMode
from swarm.definitions.names import canonical_tool, split_pattern

ROOT_TOOLS = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TeamCreate", "TeamDelete"})
"""Tools no sub-agent has: they speak to the person, or arrange the whole job.

In plan mode `ExitPlanMode` stays, so that the agent can hand its plan in; whether that ends the mode is judged then."""

SHIPPED_ONLY_TOOLS = frozenset({"EnterPlanMode", "TeamCreate", "TeamDelete"})
"""Tools that a definition from a file does not get, even as a root: whoever writes a file into a repository
must not thereby switch a person's mode, or found and dissolve teams in their job."""

BACKGROUND_TOOLS = (
    *("Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "LS", "Bash", "BashOutput", "KillShell"),
    *("TodoWrite", "WebFetch", "WebSearch", "SendMessage"),
    *("Agent", "WaitAgents", "ListAgents", "StopAgent", "ExitPlanMode"),
    *("Scratchpad*", "Board*", "Memory*", "mcp__*"),
)
"""Names and patterns of what an agent in the background may have: nothing for which somebody must sit there.

A teammate is one of these: it keeps its messages, the board and the scratchpad."""

WRITING_TOOLS = frozenset({"Write", "Edit", "NotebookEdit"})
"""Tools that change files."""

SHELL_TOOLS = frozenset({"Bash", "BashOutput", "KillShell"})
"""The shell, and what is of no use without it. Only a sandbox can keep it from writing."""

SPAWNING_TOOLS = frozenset({"Agent", "TeamCreate"})
"""Tools that add agents to the tree."""


@dataclass(frozen=True)
class Situation:
    """What the layers look at: the definition, and where in its job the agent stands."""

    definition: AgentDefinition
    depth: int
    max_depth: int
    is_root: bool
    background: bool
    mode: PermissionMode
    sandbox: bool


def filter_tools(
    available: Sequence[str],
    definition: AgentDefinition,
    *,
    depth: int,
    max_depth: int,
    is_root: bool,
    background: bool,
    mode: PermissionMode | None = None,
    sandbox: bool = False,
) -> list[str]:
    """The tools of `available` that the agent gets, in their order.

    `mode` is the mode in force, where it is not the definition's own (a parent's `plan` holds for its children).
    `sandbox` says that processes of a read-only agent, and of one that plans, cannot write: then such agents get a shell.
    """
    situation = Situation(
        definition, depth, max_depth, is_root, background, mode or definition.permission_mode, sandbox
    )
    return [tool for tool in available if _removing_layer(tool, situation) is None]


def explain_tools(
    available: Sequence[str],
    definition: AgentDefinition,
    *,
    depth: int,
    max_depth: int,
    is_root: bool,
    background: bool,
    mode: PermissionMode | None = None,
    sandbox: bool = False,
) -> list[tuple[str, str]]:
    """The tools that the agent does not get, each with the layer that took it away first."""
    situation = Situation(
        definition, depth, max_depth, is_root, background, mode or definition.permission_mode, sandbox
    )
    return [(tool, layer) for tool in available if (layer := _removing_layer(tool, situation)) is not None]


# -- the layers: each says whether the tool stays ---------------------------------------------------------


def _fits_subagent(tool: str, situation: Situation) -> bool:
    if situation.is_root or tool not in ROOT_TOOLS:
        return True
    return tool == "ExitPlanMode" and situation.mode == "plan"


def _fits_origin(tool: str, situation: Situation) -> bool:
    return situation.definition.source == "shipped" or tool not in SHIPPED_ONLY_TOOLS


def _fits_background(tool: str, situation: Situation) -> bool:
    return not situation.background or any(fnmatchcase(tool, pattern) for pattern in BACKGROUND_TOOLS)


def _is_not_disallowed(tool: str, situation: Situation) -> bool:
    entries = (split_pattern(entry) for entry in situation.definition.disallowed_tools)
    return not any(spec is None and _names(name, tool) for name, spec in entries)


def _is_listed(tool: str, situation: Situation) -> bool:
    tools = situation.definition.tools
    return tools is None or any(_names(split_pattern(entry)[0], tool) for entry in tools)


def _fits_read_only(tool: str, situation: Situation) -> bool:
    return not situation.definition.read_only or tool not in WRITING_TOOLS


def _fits_sandbox(tool: str, situation: Situation) -> bool:
    only_reads = situation.definition.read_only or situation.mode == "plan"
    return situation.sandbox or not only_reads or tool not in SHELL_TOOLS


def _fits_depth(tool: str, situation: Situation) -> bool:
    return situation.depth < situation.max_depth or tool not in SPAWNING_TOOLS


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
"""The pipeline in its order, each layer under the words that explain it to a person."""


def _removing_layer(tool: str, situation: Situation) -> str | None:
    return next((name for name, stays in LAYERS if not stays(tool, situation)), None)


def _names(pattern: str, tool: str) -> bool:
    """Whether an entry's name or pattern means this tool; `mcp__server` means every tool of that server."""
    pattern = canonical_tool(pattern)
    if pattern.startswith("mcp__") and pattern.count("__") == 1:
        return tool == pattern or fnmatchcase(tool, f"{pattern}__*")
    return fnmatchcase(tool, pattern)
