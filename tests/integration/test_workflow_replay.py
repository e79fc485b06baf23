"""Programs made by chance, in each language: one value, each call made once, wherever the process dies and the journal is cut.

Tests of swarm/workflows/replay.py, swarm/workflows/desk.py, swarm/workflows/loop.py, swarm/workflows/flow.py,
swarm/workflows/native.py, swarm/workflows/monty.py, swarm/workflows/javascript.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from swarm.agent.entries import Advanced, ToolFinished
from swarm.definitions.workflow_files import make_definition
from swarm.workflows.desk import Desk
from swarm.workflows.front_ends import make_program
from swarm.workflows.native import NativeProgram
from swarm.workflows.trial import WorkflowTrial
from tests.abstract_programs import LANGUAGES, NEVER, answer, make_part, value_of, write_program

CUTS = 4
"""Entries of each journal at which it is cut."""


def maker(source: str, language: str) -> Callable[[Desk], Any]:
    if language == "native":
        names: dict[str, Any] = {}
        exec(source, names)
        return lambda desk: NativeProgram(names["program"], desk, "")
    definition = make_definition(source, ".py" if language == "python" else ".js", "program", "program")
    return lambda desk: make_program(definition, desk, "")


def live(make: Callable[[Desk], Any], seed: int, *, deaths: float) -> tuple[WorkflowTrial, Any]:
    """A whole life: results come in an order of their own, the same for a seed. The process goes on, or dies after some wakes."""
    order, dies, trial = random.Random(seed), random.Random(seed + 1), WorkflowTrial(make)
    replay = trial.wake()
    for _ in range(5_000):
        ended, until = replay.program.ended, replay.program.until
        if ended is not None or dies.random() < deaths:
            replay.program.close()
        if ended is not None:
            assert not ended.error, ended.error
            return trial, ended.value
        if replay.desk.closed:
            replay = trial.wake()
        ready = [call for call in trial.open.values() if not call.prompt.startswith(NEVER)]
        if ready:
            for call in order.sample(ready, order.randint(1, len(ready))):
                trial.settle(call, answer)
        else:
            assert until is not None, "it waits for nothing"
            trial.now = until
            trial.append(Advanced())
        if not replay.desk.closed:
            trial.go_on(replay)
    raise AssertionError("it never ended")


def hold(seed: int, language: str) -> int:
    """Hold one program to all that is promised. Returns the number of its calls."""
    chance = random.Random(seed)
    part = make_part(chance, 1 + seed % 3, [0])
    source = write_program(part, language)
    make = maker(source, language)
    (undisturbed, value), (disturbed, again) = live(make, seed, deaths=0.0), live(make, seed, deaths=0.4)
    assert value == again == value_of(part), source
    assert undisturbed.lived == disturbed.lived
    calls = [call["id"] for entry in undisturbed.lived if isinstance(entry, Advanced) for call in entry.calls]
    assert len(calls) == len(set(calls)), "each call has one id, so it is made once"
    for cut in chance.sample(range(1, len(undisturbed.lived)), min(CUTS, len(undisturbed.lived) - 1)):
        following = undisturbed.lived[cut]
        if isinstance(following, ToolFinished) or not following.calls + following.dropped + following.notes:
            continue
        rest = WorkflowTrial(make, lived=undisturbed.lived[:cut], now=following.at)
        rest.wake().program.close()
        assert rest.lived[cut] == following, "a journal is continued as it was"
    return len(calls)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_has_one_value_and_makes_each_call_once_wherever_it_is_interrupted(language: str) -> None:
    assert sum(hold(seed, language) for seed in range(20)) > 20


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("language", LANGUAGES)
def test_two_thousand_programs_hold_in_each_language(language: str) -> None:
    assert sum(hold(seed, language) for seed in range(2_000)) > 10_000
