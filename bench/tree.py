"""A tree of 1 111 agents on 4 processes and on 1, against one asyncio process."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.bare import RequestPrefix, run_async
from bench.cpu import CpuMeter, describe, roles
from bench.lives import submit
from bench.measure import Report, alternate
from bench.neutral import neutral
from swarm.agent.history import fold
from swarm.core.ids import root_agent_id
from tests.fleet import Fleet

PROMPT = "TREE depth=3 fanout=10 steps=1"
ROUNDS = 3


def run(report: Report, chosen: Namespace) -> None:
    """2 222 model requests that take no time: what is measured is the machinery. The sizes take turns, each on a new fleet."""
    with neutral() as server:
        url = server.url
        openings: list[RequestPrefix] = []

        def swarm(processes: int) -> float:
            with closing(Fleet()) as fleet:
                worker = fleet.start_worker(processes)
                submit(fleet, url, "TREE depth=1 fanout=8 steps=1").wait(60)  # every process opens its connections
                meter, began = CpuMeter(roles(fleet, worker)), time.monotonic()
                job = submit(fleet, url, PROMPT)
                view = job.wait(600)
                spent = time.monotonic() - began
                assert view.text == "DONE 1111", view
                report.note(f"{processes} processes: {spent:.1f} s; {describe(meter.spent())}; {server.tally()}")
                agent_id = root_agent_id(job.id)
                openings.append(RequestPrefix.of(fold(agent_id, fleet.swarm.store.journals.read(agent_id))))
                return spent

        def bare() -> float:
            with closing(Fleet()) as fleet:
                seconds, texts = run_async(url, [openings[-1]], fleet.workspace)
            assert texts == ["DONE 1111"], texts
            return seconds

        found = alternate(ROUNDS, lambda: swarm(4), lambda: swarm(1), bare)
        for name, times in zip(("4 processes", "1 process", "one asyncio process"), found, strict=True):
            middle = statistics.median(times)
            report.note(f"{name}: {middle:.1f} s ({min(times):.1f}–{max(times):.1f}), {1111 / middle:.0f} agents/s")
