"""Nothing is lost, doubled or reordered while any part of a fleet is killed, stopped or cut off: the short form of the report.

Tests of swarm/runtime/loop.py, swarm/store/agents.py, tasks/agent_task.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.ledger import Charges
from tests.chaos.plan import EVERYWHERE, Plan, Talk, Tree
from tests.chaos.scenarios import (
    DISK,
    FLEET,
    LEDGER,
    QUARANTINE,
    SENTINEL,
    THREADS,
    TLS,
    WORKFLOWS,
    lacking,
    lasting,
    play,
)
from tests.chaos.section import Section
from tests.chaos.storming import Storm
from tests.needs import need

TREE = Tree(depth=2, fanout=3, steps=2, think_ms=250)
TALK = Talk(fanout=5, messages=400, batch=10, think_ms=150)


def _run(plan: Plan, folder: Path) -> Section:
    need(not (thing := lacking(plan.name)), thing)
    section = play(plan, folder)
    assert section.held, [*section.faults, *section.complaints]
    assert {blow.kind for blow in section.blows} >= set(plan.first), "every kind of blow was dealt"
    assert (section.lost, section.doubled, section.reordered) == (0, 0, 0)
    assert section.figures["agents"] >= sum(work.agents for work in plan.works)
    return section


@pytest.mark.timeout(180)
def test_trees_and_talks_survive_every_kind_of_blow(tmp_path: Path) -> None:
    works = (Tree(depth=3, fanout=4, steps=1, think_ms=300), TALK)
    plan = replace(FLEET, works=works, first=[*EVERYWHERE, "child"], rest_seconds=(0.2, 0.8), spare_one=False, seed=7)
    section = _run(plan, tmp_path)
    assert section.rescued > 0 and section.figures["messages"] >= TALK.messages


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_failover_by_sentinel_loses_nothing(tmp_path: Path) -> None:
    _run(replace(SENTINEL, works=(TREE,), first=("failover",), workers=1), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_fleet_goes_on_over_tls(tmp_path: Path) -> None:
    _run(replace(TLS, works=(TREE,), first=("redis", "cut"), workers=1), tmp_path)


@pytest.mark.timeout(180)
def test_a_full_disk_stops_work_and_loses_nothing(tmp_path: Path) -> None:
    _run(replace(DISK, works=(TREE,), first=("disk", "child"), workers=1), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_minutes_with_its_memory_at_the_limit_lose_nothing(tmp_path: Path) -> None:
    _run(lasting("memory", 180.0, 1), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_an_agent_that_kills_its_processes_is_quarantined_and_the_rest_is_counted(tmp_path: Path) -> None:
    section = _run(replace(QUARANTINE, works=(TREE,), first=("redis",), workers=1), tmp_path)
    assert section.quarantined == section.figures["jobs"]


@pytest.mark.timeout(180)
@pytest.mark.long
def test_a_pool_of_threads_loses_nothing(tmp_path: Path) -> None:
    _run(replace(THREADS, works=(TREE,), first=("worker", "redis"), workers=1), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_card_is_charged_once_for_each_call_whoever_dies(tmp_path: Path) -> None:
    works = (Charges(customers=4, turns=4, slow_ms=80),)
    first = ("child", "child", "worker", "redis")
    section = _run(replace(LEDGER, works=works, first=first, rest_seconds=(0.2, 0.6), workers=2, seed=3), tmp_path)
    assert section.figures["charges"] >= 80 and section.figures["interrupted"] == 0


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_workflow_pays_each_agent_once_and_returns_its_value_whoever_dies(tmp_path: Path) -> None:
    first = ("child", "child", "worker", "redis", "drain")
    plan = replace(WORKFLOWS, works=(Storm(60, 2),), first=first, rest_seconds=(0.2, 0.8), workers=2, seed=5)
    assert _run(plan, tmp_path).figures["agents"] == Storm(60, 2).agents


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_minutes_of_blows_lose_nothing(seed: int, tmp_path: Path) -> None:
    _run(lasting("fleet", 120.0, seed), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_a_hundred_thousand_messages_between_fifty_agents_arrive_once_and_in_order(tmp_path: Path) -> None:
    # Everybody writes to everybody before the last ones have begun to read: mailboxes fill up.
    talk = Talk(fanout=50, messages=100_000, batch=50, think_ms=0)
    plan = replace(
        lasting("talk", 300.0, 1),
        works=(talk,),
        kinds=("child", "worker", "drain"),
        rest_seconds=(2.0, 8.0),
        job_seconds=3_000.0,
    )
    assert _run(plan, tmp_path).figures["messages"] == talk.messages
