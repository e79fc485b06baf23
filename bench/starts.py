"""The curve of job starts: one-turn jobs at a given rate, from enqueued to first request, up to where the machine bends."""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import closing

from bench.lives import submit
from bench.measure import Report, quantile
from bench.neutral import neutral
from bench.starts_of import first_request_seconds
from swarm import Job
from tests.fleet import Fleet

RATES = (10, 20, 40, 80, 120)
SECONDS = 5.0
PROCESSES = 8
BENDS_MS = 1_000.0


def run(report: Report, chosen: Namespace) -> None:
    """The client, Redis, one worker and the model's server share the machine."""
    with neutral() as server, closing(Fleet()) as fleet:
        fleet.start_worker(PROCESSES)
        for _ in range(2 * PROCESSES):
            submit(fleet, server.url, "TREE depth=0 steps=0").wait(60)
        for rate in RATES:
            if _measure(report, fleet, server.url, rate) > BENDS_MS:
                break


def _measure(report: Report, fleet: Fleet, url: str, rate: int) -> float:
    began, jobs = time.monotonic(), list[Job]()
    for number in range(int(rate * SECONDS)):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        jobs.append(submit(fleet, url, "TREE depth=0 steps=0"))
    given = len(jobs) / (time.monotonic() - began)
    for job in jobs:
        job.wait(120)
    done = len(jobs) / (time.monotonic() - began)
    taken = [first_request_seconds(fleet.swarm.store, job) * 1e3 for job in jobs]
    report.note(
        f"{given:.0f} starts a second asked for, {done:.0f} ended: enqueued → first request "
        f"p50 {quantile(taken, 0.5):.0f} ms, p99 {quantile(taken, 0.99):.0f} ms"
    )
    return quantile(taken, 0.5)
