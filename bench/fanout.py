"""One parent, 20 children of 5 turns, a model that takes 200 ms: wall time against one asyncio process."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.bare import Opening, run_async
from bench.lives import submit
from bench.measure import Report, alternate
from bench.served import serve
from swarm.agent.life import fold
from swarm.ids import root_agent_id
from tests.fleet import Fleet

PROMPT = "TREE depth=1 fanout=20 steps=4 think=200"
ROUNDS = 5


def run(report: Report, chosen: Namespace) -> None:
    """One worker with 20 pool processes; the tree is the same on both sides."""
    with serve() as url, closing(Fleet()) as fleet:
        fleet.start_worker(20)

        def swarm() -> float:
            began = time.monotonic()
            job = submit(fleet, url, PROMPT)
            view = job.wait(120)
            spent = time.monotonic() - began
            assert view.text == "DONE 21", view
            return spent

        # A first run opens the processes' connections.
        job = submit(fleet, url, PROMPT)
        job.wait(120)
        agent_id = root_agent_id(job.id)
        opening = Opening.of(fold(agent_id, fleet.swarm.store.journal(agent_id)))

        def bare() -> float:
            spent, texts = run_async(url, [opening], fleet.workspace)
            assert texts == ["DONE 21"], texts
            return spent

        swarms, bares = alternate(ROUNDS, swarm, bare)
        ours, theirs = statistics.median(swarms), statistics.median(bares)
        report.note(f"swarm {ours:.2f} s ({min(swarms):.2f}–{max(swarms):.2f}), -c 20")
        report.note(f"asyncio {theirs:.2f} s ({min(bares):.2f}–{max(bares):.2f}); the model alone takes 1.40 s")
        report.figure("fanout", ours / theirs, "×", target=1.3)
