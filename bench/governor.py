"""200 agents of 10 jobs under one limit of the model's server: what is wasted, how near the limit it gets, who gets how much, storms."""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import closing
from dataclasses import replace

from bench.measure import Report
from tests.fleet import Fleet
from tests.governed import Governed, Load, Told, now, recovery_seconds
from tests.waiting import wait_for

LOAD = Load(
    jobs=10,
    siblings=20,
    weights=(1, 1, 2),
    requests=300,
    input_tokens=600_000,
    output_tokens=200_000,
)
PROCESSES = 24
SETTLE_SECONDS = 75.0
"""Until the buckets, which are full at first, have been emptied."""
SECONDS = 120.0
STORM = (60.0, 90.0)


def run(report: Report, chosen: Namespace) -> None:
    """Each case with a fleet of its own; the server is in this process, which only waits."""
    told = _measure(report, "limits known from headers", LOAD)
    report.figure("governor, wasted", told.wasted * 100, " %", target=3)
    report.figure("governor, below the limit", 100 * (1 - told.per_minute / LOAD.limit), " %", target=5)
    weights = [LOAD.weights[n % 3] for n in range(LOAD.jobs)]
    report.figure("governor, unfairness 1:1:2", told.unfairness(weights) * 100, " %", target=10)
    report.figure("governor, cold prefixes of a kind", max(told.cold.values(), default=0), "", target=1)
    report.figure("governor, failed agents", told.failed, "", target=0)
    blind = _measure(report, "limits unknown", replace(LOAD, stated=False))
    report.figure("governor blind, wasted", blind.wasted * 100, " %", target=18)
    report.figure("governor blind, failed agents", blind.failed, "", target=0)
    _storm(report)


def _measure(report: Report, name: str, load: Load) -> Told:
    with closing(Fleet()) as fleet:
        fleet.start_worker(PROCESSES)
        governed = Governed(fleet, load)
        began = now()
        governed.submit()
        time.sleep(SETTLE_SECONDS)
        middle = now()
        time.sleep(SECONDS)
        told, whole = governed.read(middle, now()), governed.read(began, now())
        stats = governed.server.stats()["by_status"]
        governed.cancel()
    report.note(
        f"{name}: {told.per_minute:.0f} turns a minute of {load.limit:.0f}; refused {dict(told.refused)}, "
        f"since the beginning {dict(whole.refused)} of {sum(stats.values())} ({stats}), wasted {whole.wasted:.1%}; "
        f"turns of jobs {[told.turns[n] for n in range(load.jobs)]}"
    )
    return told


def _storm(report: Report) -> None:
    load = replace(LOAD, storm=STORM)
    with closing(Fleet()) as fleet:
        fleet.start_worker(PROCESSES)
        governed = Governed(fleet, load)
        governed.submit()
        wait_for("the first request", lambda: governed.server.requests, 30)
        began = governed.server.requests[0].time
        time.sleep(STORM[1] + 90)
        told = governed.read(began, now())
        governed.cancel()
    end = began + STORM[1]
    within = sum(began + STORM[0] <= at < end for at in told.times)
    seconds = recovery_seconds(told.times, end, 0.95 * 0.97 * load.limit / 60)
    report.note(
        f"a storm of 529s for {STORM[1] - STORM[0]:.0f} s: {within} replies meanwhile, refused {dict(told.refused)}"
    )
    report.figure("governor, full speed after a storm", seconds, " s", target=30)
    report.figure("governor storm, failed agents", told.failed, "", target=0)


if __name__ == "__main__":
    run(Report(), Namespace())
