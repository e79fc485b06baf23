"""A workflow's process dies exactly between two writes: each agent is paid once, each call is made once, and the value is right.

Tests of swarm/capabilities/workflows/step.py, swarm/runtime/journal.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from swarm import Limits
from tests.chaos.check.lives import entries_of
from tests.chaos.crashing_worker import Order
from tests.chaos.storming import MODULE, answer_waits
from tests.chaos.test_crash_windows import Line
from tests.outside import storms
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    line = Line(tools=MODULE)
    yield line
    line.fleet.close()


@dataclass(frozen=True)
class Window:
    """Where the workflow's process dies. `later`: only once its agents are at work."""

    name: str
    order: Order
    later: bool = False
    again: int = 0
    """Requests of agents that must be made again."""
    long: bool = False


WINDOWS = [
    Window("the program ran, its calls are not written", Order("append", "before", kind="advanced", depth=0)),
    Window("its calls are written, no child is made", Order("append", "after", kind="advanced", depth=0), long=True),
    Window("before the children are made", Order("spawn", "before", depth=0), long=True),
    Window("the children are made, not published", Order("spawn", "after", depth=0)),
    Window("before it parks", Order("park", "before", depth=0), long=True),
    Window("it has parked", Order("park", "after", depth=0), long=True),
    Window(
        "a child has answered, nothing written",
        Order("append", "before", kind="assistant", depth=1),
        again=1,
        long=True,
    ),
    Window("a child has ended, the workflow is not woken", Order("finish", "after", depth=1, whole=True)),
    Window("results have come, not written", Order("append", "before", kind="advanced", depth=0), later=True),
    Window(
        "results are written, the program has not gone on",
        Order("append", "after", kind="advanced", depth=0),
        later=True,
    ),
    Window("a call is noted, not made", Order("append", "after", kind="tool_started", depth=0), later=True),
    Window(
        "a call is made, its result not written", Order("append", "before", kind="tool_finished", depth=0), later=True
    ),
    Window("a question is asked, a moment later or an event", Order("park", "after", depth=0, whole=True), later=True),
    Window("before the workflow's end", Order("finish", "before", depth=0), long=True),
]


@pytest.mark.parametrize(
    "window",
    [pytest.param(one, id=one.name, marks=[pytest.mark.long] if one.long else []) for one in WINDOWS],
)
@pytest.mark.timeout(120)
def test_a_workflow_that_dies_there_costs_time_and_nothing_else(line: Line, window: Window) -> None:
    line.man()
    fleet, server = line.fleet, line.fleet.rehearse(storms.SCENARIO.replace("[0.1, 0.5]", "0.6"))
    key = f"thaw-{WINDOWS.index(window)}"
    done = line.order(*([] if window.later else [window.order]))
    job = fleet.swarm.submit(
        json.dumps({"key": key}),
        agent="brief",
        workspace=fleet.workspace,
        base_url=server.url,
        ask_seconds=600,
        allow=["add"],
        limits=Limits(max_tokens=10**9),
    )
    if window.later:
        wait_for("its agents are at work", lambda: len(job.agents()) == 3)
        done = line.order(window.order)

    def probe() -> bool:
        line.man(**line.env)
        answer_waits(fleet, job)
        return job.view().ended

    wait_for("the workflow ends", probe, 90)
    view, left = job.view(), line.left_of(job)
    assert done[0].exists(), "it died there"
    assert (view.state, view.data) == ("completed", [1, 2, "yes", True, "GOT 2"]), view.reason
    prompts: Counter[str] = Counter()
    for history in left.lives.values():
        calls = [call["id"] for entry in entries_of(history, "advanced") for call in entry["calls"]]
        assert len(calls) == len(set(calls))
        prompts.update(entry["spec"]["prompt"] for entry in entries_of(history, "started"))
    assert sorted(prompts.values()) == [1, 1, 1, 1]
    # With the whole worker another agent's request may have been under way.
    repeated = int(server.stats()["requests"]) - 3 - window.again
    assert repeated == 0 or (window.order.whole and repeated <= 2)
    assert not any(left.left.values())
