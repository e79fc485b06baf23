"""From `submit` on an idle fleet to the first model request, against a request made at once."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.bare import RequestPrefix, live, make_client
from bench.lives import submit
from bench.measure import Report, spread
from swarm.agent.history import fold
from swarm.core.ids import root_agent_id
from tests.fleet import Fleet
from tests.waiting import wait_for

JOBS = 60


def run(report: Report, chosen: Namespace) -> None:
    """The server is in this process, which only waits: it notes when a request reached it."""
    with closing(Fleet()) as fleet:
        server = fleet.rehearse("tree")
        fleet.start_worker(2)

        def first_request(since: int) -> float:
            wait_for("a request", lambda: len(server.requests) > since, 30)
            return server.requests[-1].time

        for _ in range(6):
            job = submit(fleet, server.url, "TREE depth=0 steps=0")
            job.wait(30)
        agent_id = root_agent_id(job.id)
        opening = RequestPrefix.of(fold(agent_id, fleet.swarm.store.journals.read(agent_id)))
        client = make_client(server.url)
        called, enqueued, direct = [], [], []
        for _ in range(JOBS):
            seen, before = len(server.requests), time.time()
            job = submit(fleet, server.url, "TREE depth=0 steps=0")
            after = time.time()
            arrived = first_request(seen)
            called.append(arrived - before)
            enqueued.append(arrived - after)
            job.wait(30)
            before = time.time()
            live(client, opening, fleet.workspace)
            direct.append(server.requests[-1].time - before)
            time.sleep(0.05)
        report.note(f"submit called → request: {spread(called, ' ms', 1e3)}")
        report.note(f"enqueued → request:      {spread(enqueued, ' ms', 1e3)}")
        report.note(f"bare SDK → request:      {spread(direct, ' ms', 1e3)}")
        report.figure("start_latency p50", statistics.median(enqueued) * 1e3, " ms", target=15)
