"""Reuse an earlier run's results in a new one: by content, wherever the new program asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import ConfigDict

from swarm.agent import notes
from swarm.agent.entries import Advanced, ToolFinished
from swarm.core.formats import Formatted
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

    def take(self, calls: Iterable[Block]) -> list[ToolFinished]:
        """Return the results of these calls."""
        ids = {call["id"] for call in calls}
        return [one for one in self.results if one.tool_use_id in ids]


class RunPlan(NamedTuple):
    """The beginning of a run with earlier results."""

    reused: int
    calls: list[TriedCall]
    """The calls that it begins with. Others may follow from their results."""
    ended: ProgramEnd | None
    """The program's end, if it needs no further call."""


def ends_all(result: ToolFinished, limits: Limits) -> bool:
    """Whether every further agent of the job would be refused like this one."""
    return result.is_error and result.text in (
        notes.too_many(limits.max_agents),
        notes.TOO_MANY_CHILDREN,
        notes.NO_ROOM,
    )


def reuse_of(
    job_id: str, lived: Sequence[Advanced | ToolFinished], limits: Limits, *, retry_failed: bool = False
) -> Reuse:
    """Return a run's results, without the refusals that paused it.

    Failed calls that are to be made again take the last places among calls of equal content.
    """
    results = [entry for entry in lived if isinstance(entry, ToolFinished)]
    again = {one.tool_use_id for one in results if ends_all(one, limits) or (retry_failed and one.is_error)}
    moved, found, places = {_key_of(call_id) for call_id in again}, [], Counter[str]()
    for one in results:
        if one.tool_use_id in again:
            continue
        key = _key_of(one.tool_use_id)
        call_id = name_call(key, places[key]) if key in moved else one.tool_use_id
        places[key] += 1
        found.append(ToolFinished(tool_use_id=call_id, text=one.text, is_error=one.is_error))
    return Reuse(job_id=job_id, results=found)


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
            return RunPlan(reused, [*trial.open.values()], ended)
        for result in known:
            trial.append(result)
        reused += len(known)
        if not known and until is not None:
            trial.now = max(trial.now, until)
            trial.append(Advanced())
