"""200 one-agent jobs of 3 tool turns with a model that takes 200 ms, against one asyncio process."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.bare import Opening, run_async
from bench.cpu import CpuMeter, describe, roles
from bench.lives import submit
from bench.measure import Report, alternate
from bench.served import serve
from swarm.agent.life import fold
from swarm.ids import root_agent_id
from tests.fleet import Fleet

JOBS = 200
PROMPT = "TREE depth=0 steps=3 think=200"


def run(report: Report, chosen: Namespace) -> None:
    """One worker; the time runs from the first submission to the last job's end."""
    with serve() as url, closing(Fleet()) as fleet:
        worker = fleet.start_worker(chosen.concurrency)

        def swarm() -> float:
            meter, began = CpuMeter(roles(fleet, worker)), time.monotonic()
            jobs = [submit(fleet, url, PROMPT) for _ in range(JOBS)]
            for job in jobs:
                assert job.wait(300).text == "DONE 1"
            spent = time.monotonic() - began
            report.note(f"swarm {spent:.2f} s; {describe(meter.spent())}")
            return spent

        job = submit(fleet, url, PROMPT)
        job.wait(60)
        agent_id = root_agent_id(job.id)
        opening = Opening.of(fold(agent_id, fleet.swarm.store.journal(agent_id)))

        def bare() -> float:
            every = roles(fleet, worker)
            meter = CpuMeter({role: every[role] for role in ("client", "model's server")})
            seconds, texts = run_async(url, [opening] * JOBS, fleet.workspace)
            report.note(f"asyncio {seconds:.2f} s; {describe(meter.spent())}")
            assert texts == ["DONE 1"] * JOBS
            return seconds

        swarm()  # every process opens its connections
        swarms, bares = alternate(3, swarm, bare)
        ours, theirs = statistics.median(swarms), statistics.median(bares)
        report.note(f"swarm -c {chosen.concurrency}: {ours:.2f} s ({JOBS / ours:.0f} jobs/s)")
        report.note(f"asyncio: {theirs:.2f} s ({JOBS / theirs:.0f} jobs/s)")
        report.figure("throughput", ours / theirs, "×", target=1.0)
