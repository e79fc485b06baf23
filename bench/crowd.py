"""10 000 agents in one job, and 1 000 jobs of 10: what each costs Redis, how long it waits, what people see, and the end of all.

Light workers (`bench/light.py`) run the agents: each leaf writes a file and a message to its parent. As root, Redis has real-time
priority, so that the times of its steps are its own on a machine that others use, too.
"""

from __future__ import annotations

import io
import os
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import Console

from bench.giant import LONGEST_STEP_MS, NARROW, URL, grow
from bench.light import light_workers
from bench.lives import WIDE, claim_root, submit
from bench.measure import Report, quantile
from swarm import Job
from swarm.cli.tree_view import render_tree
from swarm.core.records import AgentView
from swarm.streaming.live.reader import LiveReader
from swarm.web.reads import read_job
from tests.fleet import Fleet
from tests.waiting import wait_for

T = TypeVar("T")
AGENTS, JOBS = 10_000, 1_000
PROCESSES, THREADS = 2, 16
FIRST_ROWS = 300
"""Of a snapshot for the page."""
LISTED_MS, BEGUN_MS, SHOWN_MS, CANCELLED_MS = 100.0, 100.0, 1_500.0, 3_000.0
"""Of this process's CPU; the cancellation is on the wall, and mostly Redis' work."""
GROWTH = 1.1
"""The most that an agent of the large job may cost Redis, in commands, of what it costs in one of a tenth."""
SECONDS = 1_500.0


@dataclass(frozen=True)
class Cost:
    """What so many agents cost Redis."""

    commands: float
    cpu_ms: float
    kilobytes: float


def run(report: Report, chosen: Namespace) -> None:
    """Three fleets: a job that grows, many small jobs, and a job whose agents all wait."""
    small = _live(report, "a job of 993", ["CROWD depth=2 fanout=31 think=0 id=0"], 993)
    large = _live(report, "a job of 10 101", ["CROWD depth=2 fanout=100 think=0 id=0"], 10_101)
    _live(report, "1 000 jobs of 10", ["CROWD depth=1 fanout=9 think=0 id=0"] * JOBS, 10 * JOBS)
    report.figure("crowd, commands an agent, of those in a tenth", large.commands / small.commands, "×", target=GROWTH)
    _look(report)


# -- at work -------------------------------------------------------------------------------------------------


def _live(report: Report, name: str, prompts: list[str], agents: int) -> Cost:
    """Run these jobs to their ends, and check their sums."""
    with closing(Fleet(lease_seconds=3_600.0)) as fleet:
        client = fleet.swarm.store.keyspace.client
        _prefer(client)
        with light_workers(fleet, PROCESSES, THREADS):
            before, began, load = _read(client), time.monotonic(), os.getloadavg()[0]
            jobs = [_submit(fleet, prompt) for prompt in prompts]
            for job in jobs:
                wait_for(f"{job.id} has ended", lambda job=job: job.view().ended, SECONDS)  # type: ignore[misc]
            spent = time.monotonic() - began
        cost = Cost(*((now - then) / agents for now, then in zip(_read(client), before, strict=True)))
        done = [job.view() for job in jobs]
        assert {view.text for view in done} == {f"DONE {agents // len(jobs)}"}, {
            view.text or view.reason for view in done
        }
        report.note(f"{name}: {agents / spent:.0f} agents/s (load {load:.0f} before)")
        report.note(
            f"{name}, each agent: {cost.commands:.0f} commands in Redis, {cost.cpu_ms:.2f} ms of its CPU, {cost.kilobytes:.1f} kB"
        )
        report.note(f"{name}, in line: {_waits([one for job in jobs for one in job.agents()])}")
        report.figure(f"crowd, {name}, longest step", _longest(client), " ms", target=LONGEST_STEP_MS)
        return cost


def _submit(fleet: Fleet, prompt: str) -> Job:
    given: Any = {"mode": "bypassPermissions", "workspace": fleet.workspace, "base_url": URL, "limits": WIDE}
    return fleet.swarm.submit(prompt, agent="general-purpose", **given)


def _waits(agents: list[AgentView]) -> str:
    parts = {
        "leaves": [one.queued_seconds for one in agents if one.turns and not one.below.turns],
        "parents": [one.queued_seconds for one in agents if one.below.turns],
    }
    return "; ".join(
        f"{name} p50 {quantile(waited, 0.5):.2f} s, p99 {quantile(waited, 0.99):.2f} s"
        for name, waited in parts.items()
        if waited
    )


# -- looked at and ended -------------------------------------------------------------------------------------


def _look(report: Report) -> None:
    """All agents wait for a time far away, as most agents of such a job would."""
    with closing(Fleet()) as fleet:
        store, client = fleet.swarm.store, fleet.swarm.store.keyspace.client
        _prefer(client)
        job = submit(fleet, URL, "crowd")
        made = grow(store, claim_root(fleet, job), AGENTS, NARROW)
        report.figure(f"{made:,} agents, jobs listed", _timed(fleet.swarm.jobs)[0], " ms", target=LISTED_MS)
        begun, _ = _timed(lambda: read_job(fleet.swarm, job.id, FIRST_ROWS))
        shown, snapshot = _timed(lambda: LiveReader(store).snapshot(job.id))
        assert len(snapshot.agents) == made + 1
        named, agents = _timed(job.agents)
        assert len(agents) == made + 1
        rows, console = list(snapshot.agents.values()), Console(file=io.StringIO(), force_terminal=True, width=120)
        drawn, _ = _timed(lambda: console.print(render_tree(rows, console, room=40)))
        began = time.monotonic()
        job.cancel()
        first = time.monotonic() - began
        while store.jobs.settle(job.id)[0]:
            pass
        ended = time.monotonic() - began
        report.figure(f"the page's snapshot, its first {FIRST_ROWS}", begun, " ms", target=BEGUN_MS)
        report.figure("a snapshot of all of them", shown, " ms", target=SHOWN_MS)
        report.figure("all records read", named, " ms", target=SHOWN_MS)
        report.note(f"their tree drawn on 40 lines: {drawn:.0f} ms")
        report.figure("cancelled: no write possible, and the last record", ended * 1e3, " ms", target=CANCELLED_MS)
        report.note(f"the cancelling call itself returned after {first * 1e3:.0f} ms")
        report.figure("crowd, longest step of its making and its end", _longest(client), " ms", target=LONGEST_STEP_MS)


# -- Redis ---------------------------------------------------------------------------------------------------


def _prefer(client: Any) -> None:
    """Let nothing but its own work take the server's time, and note slow commands."""
    with suppress(PermissionError):
        os.sched_setscheduler(int(client.info("server")["process_id"]), os.SCHED_FIFO, os.sched_param(1))
    client.config_set("slowlog-log-slower-than", 1_000)
    client.config_set("slowlog-max-len", 10_000)
    client.slowlog_reset()


def _read(client: Any) -> tuple[float, float, float]:
    """Commands so far, those inside steps among them, milliseconds of CPU, and kilobytes in use."""
    info = client.info("all")
    commands = sum(one["calls"] for name, one in info.items() if name.startswith("cmdstat_"))
    return commands, (info["used_cpu_user"] + info["used_cpu_sys"]) * 1e3, info["used_memory"] / 1e3


def _longest(client: Any) -> float:
    return max((one["duration"] / 1e3 for one in client.slowlog_get(10_000)), default=1.0)


def _timed(act: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    found = act()
    return (time.process_time() - began) * 1e3, found
