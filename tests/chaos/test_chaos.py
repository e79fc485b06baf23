"""Nothing is lost and nothing is repeated while any part of the fleet is killed, stopped or cut off at random."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import KINDS, Campaign, Plan
from tests.fleet import Fleet


def _run(fleet: Fleet, plan: Plan) -> None:
    report = Campaign(fleet, plan).run()
    print(f"\n{report.figures()}")
    assert not report.broken, "\n".join(report.broken)
    assert {blow.kind for blow in report.blows} == set(KINDS), "every kind of blow was dealt"
    assert (report.lost, report.doubled) == (0, 0)
    assert report.rescued > 0


@pytest.mark.timeout(180)
def test_a_tree_of_agents_survives_every_kind_of_blow(fleet: Fleet) -> None:
    _run(fleet, Plan(depth=3, fanout=6, steps=1, think_ms=300, blows=[*KINDS, "child", "child", "cut"], seed=7))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_thousand_agents_survive_minutes_of_blows(fleet: Fleet, seed: int) -> None:
    # 10 children of 10 children of 10: 1 111 agents.
    plan = Plan(depth=3, fanout=10, blows=[*KINDS] * 2, until_seconds=120, deadline_seconds=600, seed=seed)
    _run(fleet, plan)
