"""The long campaigns by hand: `python -m tests.chaos.run --agents 1000 --seconds 60 --seed 1` prints its figures.

With `--messages 100000 --agents 50` the agents write to each other, and only children and workers are killed.
"""

from __future__ import annotations

import argparse
import sys

from swarm.rehearsal.tree import tree_size
from tests.chaos.campaign import KINDS, Campaign, Plan
from tests.chaos.talk import TalkCampaign, TalkPlan
from tests.fleet import Fleet


def main() -> int:
    """Run one campaign; the exit code is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description=__doc__)
    parser.add_argument("--agents", type=int, default=1000, help="at least this many, in a tree three levels deep")
    parser.add_argument(
        "--messages", type=int, default=0, help="so many messages between the agents, instead of a tree"
    )
    parser.add_argument("--batch", type=int, default=50, help="messages in one reply")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long blows are dealt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument(
        "--think-ms", type=int, help="how long the rehearsed model thinks; default 200, with messages 0"
    )
    given = parser.parse_args()
    fleet = Fleet(segment_seconds=20.0) if given.messages else Fleet()
    try:
        report = _campaign(fleet, given).run()
    finally:
        fleet.close()
    print(report.figures())
    for fault in report.broken:
        print(f"BROKEN {fault}")
    return 1 if report.broken else 0


def _campaign(fleet: Fleet, given: argparse.Namespace) -> Campaign:
    if given.messages:
        talk = TalkPlan(
            fanout=given.agents,
            messages=given.messages // given.agents * given.agents,
            batch=given.batch,
            think_ms=given.think_ms or 0,
            workers=given.workers,
            processes=given.processes,
            seed=given.seed,
            until_seconds=given.seconds,
            rest_seconds=(1.0, 5.0),
            deadline_seconds=given.seconds + 3_000,
        )
        return TalkCampaign(fleet, talk)
    plan = Plan(
        depth=3,
        fanout=next(fanout for fanout in range(1, 101) if tree_size(3, fanout) >= given.agents),
        think_ms=200 if given.think_ms is None else given.think_ms,
        workers=given.workers,
        processes=given.processes,
        seed=given.seed,
        blows=KINDS,
        until_seconds=given.seconds,
        deadline_seconds=given.seconds + 600,
    )
    return Campaign(fleet, plan)


if __name__ == "__main__":
    sys.exit(main())
