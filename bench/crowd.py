"""A job of 10 000 agents: listing it, looking at its tree, cancelling it."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from bench.giant import NARROW, URL, grow
from bench.lives import claim_root, submit
from bench.measure import Report
from swarm.streaming.live.reader import LiveReader
from tests.fleet import Fleet

T = TypeVar("T")
AGENTS = 10_000
LISTED_MS, SHOWN_MS, CANCELLED_MS = 100.0, 5_000.0, 5_000.0


def run(report: Report, chosen: Namespace) -> None:
    """All of them wait for a time far away, as most agents of such a job would."""
    with closing(Fleet()) as fleet:
        store = fleet.swarm.store
        job = submit(fleet, URL, "crowd")
        made = grow(store, claim_root(fleet, job), AGENTS, NARROW)
        listed, _ = _timed(fleet.swarm.jobs)
        shown, snapshot = _timed(lambda: LiveReader(store).snapshot(job.id))
        assert len(snapshot.agents) == made + 1
        named, agents = _timed(job.agents)
        assert len(agents) == made + 1
        first, _ = _timed(job.cancel)
        began = time.monotonic()
        while store.jobs.settle(job.id)[0]:
            pass
        rest = (time.monotonic() - began) * 1e3
    report.figure(f"{made:,} agents, jobs listed", listed, " ms", target=LISTED_MS)
    report.figure("the page's snapshot of all of them", shown, " ms", target=SHOWN_MS)
    report.figure("all records read", named, " ms", target=SHOWN_MS)
    report.figure(
        "cancelled: until nothing can be written any more, and the last record",
        first + rest,
        " ms",
        target=CANCELLED_MS,
    )
    report.note(f"the cancelling call itself returned after {first:.0f} ms")


def _timed(act: Callable[[], T]) -> tuple[float, T]:
    began = time.monotonic()
    found = act()
    return (time.monotonic() - began) * 1e3, found
