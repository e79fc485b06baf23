"""A capability of an agent is a step of its loop: what it does before and after what the loop does.

`ROWS` is the only place that names them. A row's module is imported, and its step made, for agents that have the capability; for others
neither happens. The loop knows the protocol alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm.agent.compaction import Compact
from swarm.agent.decision import Action, CallModel
from swarm.agent.entries import Finished, Started, ToolFinished
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.definitions.tools import Need, ToolRow
from swarm.models import Block
from swarm.runtime.segment import Segment
from swarm.tools import Tool, ToolContext

if TYPE_CHECKING:
    from pathlib import Path

    from swarm.runtime.parts import Parts

Turn = Finished | Condition | None
"""What comes of a piece of work: the agent's end, what it waits for, or nothing: it goes on."""


class Offer:
    """What a capability adds to the beginning of an agent's requests. Here: nothing."""

    key: Any = ()
    """Tells what is added from what another agent would get; hashable."""
    meets: Need = ""
    """Tools with this need are of use."""

    def tools(self) -> Sequence[Tool]:
        """Tools beside those of the table, before any filter."""
        return ()

    def finish(self, tools: list[Tool]) -> list[Tool]:
        """The tools that are left after it, as the agent is given them."""
        return tools

    def introduce(self) -> str:
        """What the system prompt says of it."""
        return ""


class Step:
    """One capability of one running agent. A method that is not overridden does nothing."""

    def __init__(self, parts: Parts) -> None:
        self.parts: Parts = parts
        self.segment: Segment = parts.segment

    # -- the segment ---------------------------------------------------------------------------------------

    def before_segment(self) -> Turn:
        """Have the world be as the journal says. Raises `GitFailed`, and `HubAway` where nothing can be waited for."""
        return None

    def after_segment(self) -> None:
        """The segment is over, however it ended."""

    def before_end(self, finished: Finished) -> Finished:
        """The agent's last entry, about to be written."""
        return finished

    def at_end(self, finished: Finished) -> None:
        """The last entry is written."""

    def clear(self) -> None:
        """The agent is over, or was cancelled: remove what it leaves on this host."""

    # -- the beginning -------------------------------------------------------------------------------------

    def unfit(self) -> str:
        """Why an agent cannot begin on this worker, though another one may have what it needs; empty if it can."""
        return ""

    def offer(self, spec: AgentSpec) -> Offer | None:
        """What requests begin with, for this agent or one that it is about to start."""
        return None

    def opened(self, entry: Started) -> Started | Finished:
        """The entry with the beginning of the requests; or why the agent cannot work."""
        return entry

    def first_words(self) -> str:
        """What comes before the task in the first message."""
        return ""

    # -- its work ------------------------------------------------------------------------------------------

    takes: tuple[type[Action], ...] = ()
    """The actions that `due` and `before_request` are called for."""

    def due(self, action: Action) -> Callable[[], Turn] | None:
        """What must be done before this action, or in its place, if anything must. Called again until there is nothing more."""
        return None

    def before_request(self, action: CallModel | Compact) -> Turn | bool:
        """A request is about to be made, and there is room for it. True: the step has made it."""
        return None

    adds_tools = False
    """Its `Offer` has tools of its own, which are known only when an agent begins."""

    # -- calls of tools ------------------------------------------------------------------------------------

    def refuse_call(self, call: Block) -> str:
        """Why a call that is made within another one may not be; empty if it may."""
        return ""

    def refuse_child(self, call: Block) -> str:
        """Why a call may not start the agent that it asks for; empty if it may."""
        return ""

    def find_tool(self, name: str) -> Tool | None:
        """A tool that is in no table. Raises `ToolError` where it cannot be had."""
        return None

    def equip(self, context: ToolContext) -> None:
        """Put into the world of a call what its tools act through."""

    def before_run(self, context: ToolContext, row: ToolRow, given: dict[str, Any]) -> None:
        """A tool is about to run with this input."""

    def before_call(self, call: Block) -> None:
        """A call that may change files is about to run."""

    def after_call(self, call: Block, result: ToolFinished) -> ToolFinished:
        """The result of such a call, about to be journaled. Raises `GitFailed`, `HubAway`, `NotOwner`."""
        return result

    def after_calls(self, calls: Sequence[Block], results: Sequence[ToolFinished]) -> Sequence[ToolFinished]:
        """The results of calls of any kind, about to be journaled together."""
        return results

    def noted(self) -> None:
        """Results are in the journal."""

    def guarded(self, workspace: Path) -> Sequence[Path]:
        """Files that no process of the agent may change."""
        return ()


class StepRow(NamedTuple):
    """One capability."""

    name: str
    home: str
    """`module:callable`, which makes the step, or says None: the agent has no use for it after all."""
    wanted: Callable[[Segment], Any]
    """Whether the agent may have it: from what is at hand, and at once."""


def _has(name: str) -> Callable[[Segment], bool]:
    return lambda segment: name in segment.claim.documents


def _has_hooks(segment: Segment) -> bool:
    return _has("hooks")(segment) or bool(segment.spec.definition.hooks or segment.settings.managed_hooks)


def _has_servers(segment: Segment) -> bool:
    definition = segment.spec.definition
    named = any("mcp" in entry.lower() for entry in definition.tools or ())
    return _has("servers")(segment) or bool(definition.servers or definition.shared_servers or named)


def _has_copy(segment: Segment) -> bool:
    return segment.spec.isolation != "none" and not segment.spec.is_carried


# In the order of their turn.
ROWS: list[StepRow] = [
    StepRow("copies", "swarm.runtime.isolation:copy_of", _has_copy),
    StepRow("files", "swarm.runtime.shared_checkout:files_of", lambda segment: segment.spec.files),
    StepRow(
        "setup", "swarm.runtime.commands:SetupStep", lambda segment: segment.spec.files and segment.spec.files.setup
    ),
    StepRow("hooks", "swarm.capabilities.hooks.step:hooks_of", _has_hooks),
    StepRow("memory", "swarm.capabilities.memory.step:MemoryStep", lambda segment: segment.spec.definition.memory),
    StepRow(
        "skills",
        "swarm.capabilities.skills.step:SkillsStep",
        lambda segment: _has("skills")(segment) or segment.spec.definition.skills,
    ),
    StepRow("mcp", "swarm.capabilities.mcp.step:Servers", _has_servers),
    StepRow(
        "instructions",
        "swarm.capabilities.context.guidance:Guidance",
        lambda segment: segment.spec.definition.instruction_files and _has("instructions")(segment),
    ),
    StepRow("program", "swarm.runtime.messenger:ProgramStep", lambda segment: segment.spec.definition.command),
    StepRow("team", "swarm.capabilities.team.step:TeamStep", lambda segment: segment.spec.limits.max_depth),
    StepRow("outcome", "swarm.capabilities.outcomes.step:OutcomeStep", lambda segment: segment.spec.definition.outcome),
    # A program has no model that could sum anything up.
    StepRow(
        "summaries",
        "swarm.capabilities.summaries.step:SummaryStep",
        lambda segment: segment.spec.summaries and not segment.spec.definition.command,
    ),
    StepRow("batching", "swarm.capabilities.batching.step:BatchStep", lambda segment: segment.spec.batch),
    StepRow("compaction", "swarm.capabilities.context.compaction:CompactionStep", lambda segment: True),
]


def make_steps(parts: Parts) -> list[Step]:
    """The steps of one running agent."""
    found = [_make(row, parts) for row in ROWS if row.wanted(parts.segment)]
    return [step for step in found if step is not None]


def _make(row: StepRow, parts: Parts) -> Step | None:
    module, _, name = row.home.partition(":")
    make: Callable[[Parts], Step | None] = getattr(import_module(module), name)
    return make(parts)
