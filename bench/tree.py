"""A tree of 1 111 agents on 4 processes and on 1, against one asyncio process."""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import closing

from bench.bare import Opening, run_async
from bench.lives import submit
from bench.measure import Report
from bench.served import serve
from swarm.agent.life import fold
from swarm.ids import root_agent_id
from tests.fleet import Fleet

PROMPT = "TREE depth=3 fanout=10 steps=1"


def run(report: Report, chosen: Namespace) -> None:
    """2 222 model requests that take no time: what is measured is the machinery."""
    opening = None
    with serve() as url:
        for processes in (4, 1):
            with closing(Fleet()) as fleet:
                fleet.start_worker(processes)
                began = time.monotonic()
                job = submit(fleet, url, PROMPT)
                view = job.wait(600)
                spent = time.monotonic() - began
                assert view.text == "DONE 1111", view
                report.note(f"{processes} processes: {spent:.1f} s, {1111 / spent:.0f} agents/s, {view.turns} turns")
                agent_id = root_agent_id(job.id)
                opening = Opening.of(fold(agent_id, fleet.swarm.store.journal(agent_id)))
                if processes == 1:
                    seconds, texts = run_async(url, [opening], fleet.workspace)
                    assert texts == ["DONE 1111"], texts
                    report.note(f"one asyncio process: {seconds:.1f} s, {1111 / seconds:.0f} agents/s")
