"""Reuse an earlier run's results in a new one: by content, wherever the new program asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import ConfigDict

from swarm.agent import notes
from swarm.agent.entries import Advanced, ToolFinished
from swarm.core.formats import Formatted
from swarm.core.ids import child_agent_id
from swarm.core.records import Limits
from swarm.definitions.model import AgentDefinition
from swarm.models import Block
from swarm.workflows.desk import Desk, ProgramEnd, name_call
from swarm.workflows.front_ends import make_program
from swarm.workflows.trial import TriedCall, WorkflowTrial


class Reuse(Formatted):
    """Results of an earlier run, in the order in which they came. It travels with the new job."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    results: list[ToolFinished]
    below: dict[str, Reuse] = {}
    """Results of workflows that this one had started and whose own result is not here, by the id of the call."""

    def of(self, agent_id: str, mine: str) -> Reuse | None:
        """Return the results for an agent of the new run, which has these itself if its id is `mine`; None if it has none."""
        if agent_id == mine:
            return self
        found = (one.of(agent_id, child_agent_id(mine, call_id)) for call_id, one in self.below.items())
        return next(filter(None, found), None)

    def with_rest_of(self, given: Reuse, asked: Collection[str], ended: Collection[str]) -> Reuse:
        """Return this with what the run was given of an earlier one and did not come to: calls that it has not asked for, or not ended."""
        rest = [one for one in given.results if one.tool_use_id not in asked]
        below = {call_id: one for call_id, one in given.below.items() if call_id not in ended}
        return self.model_copy(update={"results": [*self.results, *rest], "below": {**below, **self.below}})

    def walk(self) -> Iterator[Reuse]:
        """Yield this and all below it."""
        yield self
        for one in self.below.values():
            yield from one.walk()

    def take(self, calls: Iterable[Block]) -> list[ToolFinished]:
        """Return the results of these calls."""
        ids = {call["id"] for call in calls}
        return [one for one in self.results if one.tool_use_id in ids]


class RunPlan(NamedTuple):
    """The beginning of a run with earlier results."""

    reused: int
    """Results that it takes, and those that workflows below it have."""
    calls: list[TriedCall]
    """The calls that it begins with. Others may follow from their results."""
    ended: ProgramEnd | None
    """The program's end, if it needs no further call."""


PAUSED = "paused: "
"""The beginning of the reason of a run that ended because each further agent would be refused."""


def calls_in(lived: Iterable[Advanced | ToolFinished]) -> tuple[list[str], dict[str, bool]]:
    """Return the ids of a program's calls in order, and of those that have a result, whether they failed."""
    entries = list(lived)
    asked = [call["id"] for entry in entries if isinstance(entry, Advanced) for call in entry.calls]
    return asked, {one.tool_use_id: one.is_error for one in entries if isinstance(one, ToolFinished)}


def ends_all(result: ToolFinished, limits: Limits) -> bool:
    """Whether every further agent of the job would be refused like this one."""
    return result.is_error and result.text in (
        notes.too_many(limits.max_agents),
        notes.TOO_MANY_CHILDREN,
        notes.NO_ROOM,
    )


def reuse_of(
    job_id: str,
    lived: Sequence[Advanced | ToolFinished],
    limits: Limits,
    *,
    retry_failed: bool = False,
    below: Mapping[str, Reuse] | None = None,
) -> Reuse:
    """Return a run's results, without the refusals that paused it.

    `below` are the results of workflows that are to be run again, by the id of the call. Calls that are to be made again take the last
    places among calls of equal content.
    """
    results, inner = [entry for entry in lived if isinstance(entry, ToolFinished)], below or {}
    made, _ = calls_in(lived)
    again = {one.tool_use_id for one in results if ends_all(one, limits) or (retry_failed and one.is_error)} | {*inner}
    kept = [one for one in results if one.tool_use_id not in again]
    moved, places, names = {_key_of(call_id) for call_id in again}, Counter[str](), dict[str, str]()
    for call_id in [*(one.tool_use_id for one in kept), *(one for one in made if one in again)]:
        key = _key_of(call_id)
        names[call_id] = name_call(key, places[key]) if key in moved else call_id
        places[key] += 1
    return Reuse(
        job_id=job_id,
        results=[
            ToolFinished(tool_use_id=names[one.tool_use_id], text=one.text, is_error=one.is_error) for one in kept
        ],
        below={names[call_id]: inner[call_id] for call_id in made if call_id in inner},
    )


def _key_of(call_id: str) -> str:
    return call_id.rpartition(".")[0]


def plan_run(definition: AgentDefinition, task: str, reuse: Reuse) -> RunPlan:
    """Run the program as far as earlier results lead. Nothing is started. Raises `ConfigurationError`."""

    def make(desk: Desk) -> object:
        return make_program(definition, desk, task)

    trial, reused = WorkflowTrial(make), 0
    while True:
        replay = trial.wake()
        ended, until = replay.program.ended, replay.program.until
        replay.program.close()
        known = reuse.take({"id": call_id} for call_id in trial.open)
        if ended is not None or not (known or (until is not None and not trial.open)):
            below = (one for call in trial.open if call in reuse.below for one in reuse.below[call].walk())
            return RunPlan(reused + sum(len(one.results) for one in below), [*trial.open.values()], ended)
        for result in known:
            trial.append(result)
        reused += len(known)
        if not known and until is not None:
            trial.now = max(trial.now, until)
            trial.append(Advanced())
