"""The process dies exactly between two writes: at every such point the job completes, and everything counts once.

Tests of swarm/runtime/journal.py, swarm/runtime/loop.py.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from swarm import Job
from tests.chaos.check.dump import Job as Left
from tests.chaos.check.dump import take
from tests.chaos.check.judge import judge
from tests.chaos.crashing_worker import CrashingWorker, Order, crashing_environment, orders_folder
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

WRITING = "TREE depth=1 fanout=2 steps=1 write=1"
READING = "TREE depth=1 fanout=2 steps=1"
ONE_CHILD = "TREE depth=1 fanout=1 steps=1 write=1"


class Line:
    """A fleet with one crashing worker, which is replaced when it has died as a whole."""

    def __init__(self, **settings: Any) -> None:
        self.fleet = Fleet(**settings)
        self.worker: CrashingWorker | None = None
        self.env: dict[str, str] = {}

    def man(self, **env: str) -> None:
        """Have a living worker with exactly these variables."""
        if self.worker is not None and self.env != env:
            self.worker.kill()
        if self.worker is None or self.worker.process.poll() is not None:
            self.env = env
            self.worker = CrashingWorker(self.fleet, 2, **env)

    def order(self, *orders: Order) -> list[Path]:
        """Forget what was ordered, and order this."""
        shutil.rmtree(orders_folder(self.fleet), ignore_errors=True)
        (self.fleet.workspace / "effects.log").unlink(missing_ok=True)
        return [order.give(orders_folder(self.fleet)) for order in orders]

    def see_through(self, job: Job, seconds: float = 40) -> Left:
        """Wait for the job's end, whatever dies, and return what it left, once that was judged."""

        def probe() -> bool:
            self.man(**self.env)
            return job.view().ended

        wait_for("the job ends", probe, seconds)
        left = self.left_of(job)
        assert not (faults := judge([left]).faults), faults
        return left

    def left_of(self, job: Job) -> Left:
        """What a job that is over has left."""
        log = self.fleet.workspace / "effects.log"
        return take(
            self.fleet.swarm.store.keyspace.client, job.id, effects=log.read_text().splitlines() if log.exists() else []
        )


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.fleet.close()


@dataclass(frozen=True)
class Window:
    """Where to die, and what must come of it."""

    name: str
    order: Order
    prompt: str = WRITING
    again: int = 0
    """Calls of the model that have to be made again."""
    interrupted: int = 0
    """Calls of tools that the model must be told were interrupted."""
    effects: int = 2
    """Effects that must be there in the end."""
    long: bool = False
    """Only by hand: a worker that dies as a whole costs as much as ten windows, and one such death in a tree is tried each time."""


WINDOWS = [
    Window("the message was taken, no claim made", Order("claim", "before")),
    Window("claimed, nothing written", Order("claim", "after", depth=1)),
    Window("claimed, the whole worker dies", Order("claim", "after", depth=1, whole=True), long=True),
    Window("before the first entry", Order("append", "before", kind="started")),
    Window("after the first entry", Order("append", "after", kind="started")),
    Window("tokens reserved, the model not called", Order("reserve", "after", depth=1)),
    Window("the model has answered, nothing written", Order("append", "before", kind="assistant", depth=1), again=1),
    Window(
        "the model has answered, the whole worker dies",
        Order("append", "before", kind="assistant", depth=1, whole=True),
        prompt=ONE_CHILD,
        again=1,
        effects=1,
        long=True,
    ),
    Window("the reply is written", Order("append", "after", kind="assistant", depth=1)),
    Window(
        "before a reply and its call with effects are noted", Order("append", "before", kind="tool_started"), again=1
    ),
    Window(
        "a call with effects is noted, not run", Order("append", "after", kind="tool_started"), interrupted=1, effects=1
    ),
    Window(
        "an effect has happened, unwritten", Order("append", "before", kind="tool_finished", depth=1), interrupted=1
    ),
    Window("an effect is written", Order("append", "after", kind="tool_finished", depth=1)),
    Window(
        "a call without effects ran, unwritten like its reply",
        Order("append", "before", kind="tool_finished", depth=1),
        prompt=READING,
        again=1,
        effects=0,
    ),
    Window("before the children are made", Order("spawn", "before")),
    Window("the children are made, not published", Order("spawn", "after")),
    Window("the children are made, the whole worker dies", Order("spawn", "after", whole=True), long=True),
    Window("before the parent parks", Order("park", "before")),
    Window("the parent has parked", Order("park", "after")),
    Window("before the end", Order("finish", "before", depth=1)),
    Window("ended, the parent's wake-up not published", Order("finish", "after", depth=1), ONE_CHILD, effects=1),
    Window("ended, the whole worker dies", Order("finish", "after", depth=1, whole=True), ONE_CHILD, effects=1),
    Window("before the parent takes its children's results", Order("append", "before", kind="tool_finished", depth=0)),
    Window("before the root's end", Order("finish", "before", depth=0)),
]


@pytest.mark.parametrize(
    "window",
    [pytest.param(window, id=window.name, marks=[pytest.mark.long] if window.long else []) for window in WINDOWS],
)
def test_dying_there_costs_time_and_nothing_else(line: Line, window: Window) -> None:
    line.man()
    server = line.fleet.rehearse()
    [done] = line.order(window.order)
    job = line.fleet.submit(window.prompt, server, max_tokens=1_000_000)
    left = line.see_through(job)
    assert done.exists(), "it died there"
    assert len(left.effects or ()) == window.effects
    assert judge([left]).interrupted == window.interrupted
    assert _calls(server) == int(left.record["turns"]) + window.again


def _calls(server: RehearsalServer) -> int:
    return int(server.stats()["requests"])


JUDGED = """
name: judged
rules:
  - {when: {definition: grader}, reply: {text: '{"passed": true, "summary": "met", "findings": []}'}}
  - {reply: {text: it is done}}
"""


@pytest.mark.parametrize(
    ("order", "checks"),
    [
        (Order("judge_end", "before", depth=0), 2),
        (Order("judge_end", "after", depth=0), 1),
        (Order("spawn", "before", depth=0), 1),
        (Order("spawn", "after", depth=0), 1),
        (Order("append", "before", kind="assistant", depth=1), 1),
        (Order("finish", "after", depth=1, whole=True), 1),
    ],
    ids=[
        "checked, unwritten",
        "checked",
        "no grader yet",
        "a grader, unpublished",
        "graded, unwritten",
        "graded, the worker dies",
    ],
)
def test_dying_while_work_is_judged_costs_at_most_another_check(line: Line, order: Order, checks: int) -> None:
    line.man()
    [done] = line.order(order)
    log = line.fleet.workspace / "checks.log"
    log.unlink(missing_ok=True)
    job = line.fleet.swarm.submit(
        "do it",
        agent="general-purpose",
        workspace=line.fleet.workspace,
        base_url=line.fleet.rehearse(JUDGED).url,
        check="echo checked >> checks.log",
        rubric="It is done.",
    )
    line.see_through(job)
    view = job.view()
    assert done.exists() and (view.state, view.agents) == ("completed", 2)
    assert [(verdict.by, verdict.passed) for verdict in view.verdicts] == [("check", True), ("grader", True)]
    assert log.read_text().count("checked") == checks


def test_handed_over_and_not_published_it_goes_on(line: Line) -> None:
    # Every agent gives its process back after its first turn.
    line.man(SWARM_SEGMENT_SECONDS="0.1")
    [done] = line.order(Order("hand_over", "after", depth=1))
    left = line.see_through(line.fleet.submit(WRITING, line.fleet.rehearse(latency_seconds=0.2)))
    assert done.exists() and len(left.effects or ()) == 2


def test_rescued_and_not_published_it_goes_on(line: Line) -> None:
    """The agent's process dies, its worker puts it back, and dies before it has told anybody."""
    line.man()
    dones = line.order(Order("append", "before", kind="assistant", depth=1), Order("rescue", "after"))
    left = line.see_through(line.fleet.submit(WRITING, line.fleet.rehearse()))
    # The other agent's command may have been under way when the worker died: then it is reported, and not run again.
    assert all(done.exists() for done in dones) and len(left.effects or ()) in (1, 2)


# -- clients that die ----------------------------------------------------------------------------------------


def _die_as_client(line: Line, program: str) -> None:
    program = f"from tests.chaos.crashing_worker import install; install()\nfrom swarm import Limits, Swarm\n{program}"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=crashing_environment(line.fleet),
        cwd=line.fleet.folder,
        capture_output=True,
        timeout=30,
        text=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_job_whose_client_died_before_publishing_it_runs(line: Line) -> None:
    line.man()
    line.order(Order("submit", "after"))
    server, workspace = line.fleet.rehearse(), str(line.fleet.workspace)
    given = f"agent='general-purpose', workspace={workspace!r}, base_url={server.url!r}"
    _die_as_client(line, f"Swarm().submit({WRITING!r}, {given})")
    [view] = line.fleet.swarm.jobs(1)
    left = line.see_through(line.fleet.swarm.job(view.id))
    assert len(left.effects or ()) == 2


def test_a_cancel_whose_client_died_before_telling_the_workers_stops_them(line: Line) -> None:
    line.man()
    seconds = f"87{line.fleet.settings.state_folder().stat().st_ino % 100000}"
    server = line.fleet.rehearse(
        f"name: sleeper\nrules: [{{reply: {{tools: [{{name: Bash, input: {{command: sleep {seconds}}}}}]}}}}]\n"
    )
    job = line.fleet.submit("sleep", server)

    def sleepers() -> list[psutil.Process]:
        return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]

    wait_for("the shell runs", sleepers)
    line.order(Order("cancel", "after"))
    _die_as_client(line, f"Swarm().job({job.id!r}).cancel()")
    assert job.view().state == "cancelled"
    wait_for("its shell is gone", lambda: not sleepers(), 10)
    assert not any(line.left_of(job).left.values())


def test_a_lost_wake_up_does_not_wait_until_a_busy_queue_is_empty(line: Line) -> None:
    line.man()
    [done] = line.order(Order("finish", "after", depth=1))
    waiting = line.fleet.submit(ONE_CHILD, line.fleet.rehearse())
    wait_for("the wake-up is lost", done.exists)
    busy = line.fleet.submit("TREE depth=1 fanout=80 steps=1", line.fleet.rehearse(latency_seconds=0.5))
    wait_for("others queue", lambda: len(busy.agents()) == 81)
    assert waiting.wait(20).text == "DONE 2"
    assert sum(agent.started_at is None for agent in busy.agents()) > 10, "others still wait for their turn"
    busy.cancel()
    assert not any(line.left_of(waiting).left.values())
