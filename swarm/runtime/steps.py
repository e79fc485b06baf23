"""The steps of an agent's loop, which act before and after its own actions: a few of the runtime, the others of capabilities.

A row's module is imported, and its step made, only for agents that have the step. The loop knows only the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from swarm.agent.compaction import Compact
from swarm.agent.decision import Action, CallModel
from swarm.agent.entries import Finished, Started, ToolFinished
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.core.capabilities import StepRow, capabilities, load
from swarm.definitions.tools import Need, ToolRow
from swarm.models import Block
from swarm.runtime.segment import Segment
from swarm.store.questions import Ask
from swarm.tools import AwaitsAnswer, Tool, ToolContext

if TYPE_CHECKING:
    from pathlib import Path

    from swarm.runtime.parts import Parts


@dataclass(frozen=True)
class Asking:
    """A wait that asks a question in the same step."""

    condition: Condition
    tool_use_id: str
    ask: dict[str, Any]
    further: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Further questions, by the condition's ids of them."""


@dataclass(frozen=True)
class Again:
    """The agent's record has changed, or something outside must: the agent is claimed again."""

    why: str


Turn = Finished | Condition | Asking | Again | None
"""The result of a piece of work: the agent's end, a condition, another claim, or None to continue."""


class Offer:
    """Additions of a capability to an agent's request prefix. This base class adds nothing."""

    key: Any = ()
    """Distinguishes this offer from one to another agent. Hashable."""
    meets: Need = ""
    """Need that this offer meets; tools with this need become useful."""

    def tools(self) -> Sequence[Tool]:
        """Tools beside those of the table, before any filter."""
        return ()

    def finish(self, tools: list[Tool]) -> list[Tool]:
        """Adapt the tools that remain after the filter."""
        return tools

    def introduce(self) -> str:
        """A section for the system prompt."""
        return ""


class Step:
    """One capability of one running agent. A method that is not overridden does nothing."""

    def __init__(self, parts: Parts) -> None:
        self.parts: Parts = parts
        self.segment: Segment = parts.segment

    # -- the segment ---------------------------------------------------------------------------------------

    def before_segment(self) -> Turn:
        """Restore the journaled outside state. Raises `GitFailed`, or `HubAway` if it cannot wait."""
        return None

    def after_segment(self) -> None:
        """Clean up after the segment, whatever its outcome."""

    def before_end(self, finished: Finished) -> Finished:
        """Adapt the agent's last entry, about to be written."""
        return finished

    def at_end(self, finished: Finished) -> None:
        """React to the written last entry."""

    def clear(self) -> None:
        """Remove the traces on this host of an agent that has ended or was cancelled."""

    # -- the beginning -------------------------------------------------------------------------------------

    def unfit(self) -> str:
        """Explain why the agent cannot begin on this worker but may on another; else empty."""
        return ""

    def offer(self, spec: AgentSpec) -> Offer | None:
        """The request prefix's additions for this agent, or for one that it is about to start."""
        return None

    def opened(self, entry: Started) -> Started | Finished:
        """Adapt the entry with the request prefix; or return the agent's end if it cannot work."""
        return entry

    def first_words(self) -> str:
        """Text before the task in the first message."""
        return ""

    # -- work ----------------------------------------------------------------------------------------------

    takes: tuple[type[Action], ...] = ()
    """Actions that `due` and `before_request` are called for."""

    def due(self, action: Action) -> Callable[[], Turn] | None:
        """Work before or instead of this action, if any. Called again until it returns None."""
        return None

    def before_request(self, action: CallModel | Compact) -> Turn | bool:
        """Act just before a request that has a slot. True: the step has made the request."""
        return None

    adds_tools = False
    """Whether the `Offer` has tools of its own, known only when an agent begins."""

    # -- calls of tools ------------------------------------------------------------------------------------

    def refuse_call(self, call: Block) -> str:
        """Explain why a call may not be made within another one; empty if it may."""
        return ""

    def names_of(self, row: ToolRow, given: dict[str, Any]) -> Sequence[str]:
        """Every name of a call's subject, beside the given one; rules about any of them hold."""
        return ()

    def before_question(self, call: Block, ask: Ask, *, in_call: bool) -> bool:
        """Act before a question about a call, or of a running call, is put. True: decide about the call again."""
        return False

    def may_answer(self, server: str) -> bool:
        """Whether `answer` can answer questions of this MCP server."""
        return False

    def answer(self, awaited: AwaitsAnswer) -> str:
        """Answer the question of a running call in the person's place; empty if the person is to be asked."""
        return ""

    def refuse_child(self, call: Block) -> str:
        """Explain why a call may not start its agent; empty if it may."""
        return ""

    def find_tool(self, name: str) -> Tool | None:
        """Find a tool outside the table. Raises `ToolError` if it is unavailable."""
        return None

    def equip(self, context: ToolContext) -> None:
        """Equip a call's context for its tools."""

    def before_run(self, context: ToolContext, row: ToolRow, given: dict[str, Any]) -> None:
        """Prepare for a tool that is about to run with this input."""

    def before_call(self, call: Block) -> None:
        """Prepare for a call that may change files."""

    def after_call(self, call: Block, result: ToolFinished) -> ToolFinished:
        """Adapt that call's result for the journal. Raises `GitFailed`, `HubAway`, `NotOwner`."""
        return result

    def after_calls(self, calls: Sequence[Block], results: Sequence[ToolFinished]) -> Sequence[ToolFinished]:
        """Adapt results of any calls, about to be journaled together."""
        return results

    def noted(self) -> None:
        """React to results in the journal."""

    def guarded(self, workspace: Path) -> Sequence[Path]:
        """Files in the workspace that no process of the agent may change."""
        return ()


# In the order of their turn, before those of capabilities.
_OWN = (
    StepRow("copies", "swarm.runtime.isolation:copy_of", ("spec.has_own_copy",)),
    StepRow("files", "swarm.runtime.shared_checkout:files_of", ("spec.files",)),
    StepRow("setup", "swarm.runtime.commands:SetupStep", ("spec.setup",)),
    StepRow("program", "swarm.runtime.messenger:ProgramStep", ("spec.definition.command",)),
)


@cache
def step_rows() -> Sequence[StepRow]:
    """Return all rows, in the order of their steps' turn."""
    return (*_OWN, *(row for one in capabilities().values() for row in one.steps))


def make_steps(parts: Parts) -> list[Step]:
    """The steps of one running agent."""
    found = [load(row.home)(parts) for row in step_rows() if _may_have(parts.segment, row)]
    return [step for step in found if step is not None]


def _may_have(segment: Segment, row: StepRow) -> bool:
    if row.document in segment.claim.documents or not (row.wanted or row.document):
        return True
    return any(attrgetter(path)(segment) for path in row.wanted)
