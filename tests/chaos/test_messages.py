"""A message enters its receiver's conversation exactly once, in order, while the workers that carry it are killed."""

from __future__ import annotations

import pytest

from tests.chaos.talk import TalkCampaign, TalkPlan
from tests.fleet import Fleet


def _run(fleet: Fleet, plan: TalkPlan) -> None:
    report = TalkCampaign(fleet, plan).run()
    print(f"\n{report.figures()}")
    assert not report.broken, "\n".join(report.broken)
    assert report.delivered == plan.messages
    assert (report.lost, report.doubled, report.disordered) == (0, 0, 0)
    assert report.rescued > 0


@pytest.mark.timeout(180)
def test_messages_arrive_once_and_in_order_while_workers_die(fleet: Fleet) -> None:
    blows = ["child", "child", "child", "worker"]
    _run(fleet, TalkPlan(fanout=8, messages=1_600, batch=20, workers=2, processes=2, blows=blows, seed=3))


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_a_hundred_thousand_messages_between_fifty_agents_arrive_once_and_in_order() -> None:
    # Everybody writes to everybody before the last ones have begun to read: mailboxes fill up.
    fleet = Fleet(segment_seconds=20.0)
    try:
        _run(
            fleet,
            TalkPlan(
                fanout=50,
                messages=100_000,
                batch=50,
                think_ms=0,
                blows=["child", "child", "worker"] * 4,
                rest_seconds=(2.0, 8.0),
                until_seconds=300.0,
                deadline_seconds=3_000.0,
            ),
        )
    finally:
        fleet.close()
