"""The long campaign by hand: `python -m tests.chaos.run --agents 1000 --seconds 60 --seed 1` prints its figures."""

from __future__ import annotations

import argparse
import sys

from swarm.rehearsal.tree import tree_size
from tests.chaos.campaign import KINDS, Campaign, Plan
from tests.fleet import Fleet


def main() -> int:
    """Run one campaign; the exit code is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description=__doc__)
    parser.add_argument("--agents", type=int, default=1000, help="at least this many, in a tree three levels deep")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long blows are dealt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--think-ms", type=int, default=200, help="how long the rehearsed model thinks over a reply")
    given = parser.parse_args()
    plan = Plan(
        depth=3,
        fanout=next(fanout for fanout in range(1, 101) if tree_size(3, fanout) >= given.agents),
        think_ms=given.think_ms,
        workers=given.workers,
        processes=given.processes,
        seed=given.seed,
        blows=KINDS,
        until_seconds=given.seconds,
        deadline_seconds=given.seconds + 600,
    )
    fleet = Fleet()
    try:
        report = Campaign(fleet, plan).run()
    finally:
        fleet.close()
    print(report.figures())
    for fault in report.broken:
        print(f"BROKEN {fault}")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
