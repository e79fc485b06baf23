"""200 one-agent jobs of 3 turns with a model that takes 200 ms, against one asyncio process."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.bare import RequestPrefix, run_async
from bench.cpu import CpuMeter, describe, ours, roles
from bench.lives import submit
from bench.measure import Report, alternate
from bench.neutral import neutral
from swarm.agent.history import fold
from swarm.core.ids import root_agent_id
from tests.fleet import Fleet

JOBS = 200
PROMPT = "TREE depth=0 steps=2 think=200"


def run(report: Report, chosen: Namespace) -> None:
    """One worker; the time runs from the first submission to the last job's end, the CPU is all but the model's server's."""
    cpu: dict[str, list[float]] = {"swarm": [], "asyncio": []}
    with neutral() as server, closing(Fleet()) as fleet:
        worker = fleet.start_worker(chosen.concurrency)

        def noted(who: str, seconds: float, meter: CpuMeter) -> float:
            spent = meter.spent()
            cpu[who].append(ours(spent))
            report.note(f"{who} {seconds:.2f} s; {describe(spent)}; {server.tally()}")
            return seconds

        def swarm() -> float:
            meter, began = CpuMeter(roles(fleet, worker)), time.monotonic()
            jobs = [submit(fleet, server.url, PROMPT) for _ in range(JOBS)]
            for job in jobs:
                assert job.wait(300).text == "DONE 1"
            return noted("swarm", time.monotonic() - began, meter)

        job = submit(fleet, server.url, PROMPT)
        job.wait(60)
        agent_id = root_agent_id(job.id)
        opening = RequestPrefix.of(fold(agent_id, fleet.swarm.store.journals.read(agent_id)))

        def bare() -> float:
            every = roles(fleet, worker)
            meter = CpuMeter({role: every[role] for role in ("client", "model's server")})
            seconds, texts = run_async(server.url, [opening] * JOBS, fleet.workspace)
            assert texts == ["DONE 1"] * JOBS
            return noted("asyncio", seconds, meter)

        swarm()  # every process opens its connections
        cpu["swarm"].clear()
        report.note(f"a finished job keeps {_kept_bytes(fleet, job.id) / 1e3:.1f} KB of its own in Redis")
        swarms, bares = alternate(3, swarm, bare)
        mine, theirs = statistics.median(swarms), statistics.median(bares)
        report.note(f"swarm -c {chosen.concurrency}: {mine:.2f} s ({JOBS / mine:.0f} jobs/s)")
        report.note(f"asyncio: {theirs:.2f} s ({JOBS / theirs:.0f} jobs/s)")
        report.figure("throughput", mine / theirs, "×", target=1.0)
        report.figure(
            "throughput, CPU", statistics.median(cpu["swarm"]) / statistics.median(cpu["asyncio"]), "×", target=1.3
        )


def _kept_bytes(fleet: Fleet, job_id: str) -> int:
    """What the keys that bear a job's id, or its root's, take."""
    client = fleet.swarm.store.keyspace.client
    keys = [key for name in (job_id, root_agent_id(job_id)) for key in client.scan_iter(f"*{name}*", count=10_000)]
    return sum(int(client.memory_usage(key, samples=0) or 0) for key in keys)
