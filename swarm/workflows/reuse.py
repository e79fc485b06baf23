"""Reuse an earlier run's results in a new one: by content, wherever the new program asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import ConfigDict

from swarm.agent.entries import Advanced, ToolFinished
from swarm.core.formats import Formatted
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


def reuse_of(job_id: str, lived: Sequence[Advanced | ToolFinished], *, retry_failed: bool) -> Reuse:
    """Return a run's results. Failed calls that are to be made again take the last places among calls of equal content."""
    found, places = [], Counter[str]()
    for entry in lived:
        if not isinstance(entry, ToolFinished) or (entry.is_error and retry_failed):
            continue
        key = entry.tool_use_id.rpartition(".")[0]
        call_id = name_call(key, places[key]) if retry_failed else entry.tool_use_id
        places[key] += 1
        found.append(ToolFinished(tool_use_id=call_id, text=entry.text, is_error=entry.is_error))
    return Reuse(job_id=job_id, results=found)


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
