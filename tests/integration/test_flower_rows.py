"""Flower's own rows of agents are true: readable names, right parents, the whole time of their lives.

Tests of tasks/agent_task.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fleet import Fleet
from tests.flower import Flower, running_flower
from tests.waiting import wait_for


def _row(flower: Flower, agent_id: str) -> Any:
    flower.base, base = "", flower.base
    try:
        found = flower.get(f"/api/task/info/{agent_id}")
        return found.json() if found.status == 200 else None
    finally:
        flower.base = base


def test_each_agent_is_one_row_with_its_name_its_parent_and_its_whole_life(fleet: Fleet) -> None:
    with running_flower(fleet, FLOWER_UNAUTHENTICATED_API="true") as flower:
        fleet.start_worker(2)
        # Its worker sends events once Flower has asked for them.
        job = fleet.submit("TREE depth=1 fanout=2 steps=2 think=300", fleet.rehearse())
        job.wait(60)
        root, *children = job.agents()
        rows = wait_for(
            "all have ended in Flower", lambda: _ended_rows(flower, [root.id, *(child.id for child in children)])
        )
        for agent in (root, *children):
            row = rows[agent.id]
            assert (row["state"], row["root"]) == ("SUCCESS", root.id), agent.label
            assert row["args"] == (agent.label if agent.parent_id else f"general-purpose: {job.id}")
            assert row["parent"] == agent.parent_id
            assert agent.ended_at is not None and agent.started_at is not None
            assert row["runtime"] == pytest.approx(agent.ended_at - agent.started_at, abs=0.5)
            assert row["result"] == f"{agent.turns} turns, 2 tool calls, {agent.usage.total_tokens} tokens"
        assert rows[root.id]["runtime"] > max(rows[child.id]["runtime"] for child in children), "it waited for them"


def test_an_agent_that_waits_has_not_succeeded_and_one_that_failed_says_why(fleet: Fleet) -> None:
    with running_flower(fleet, FLOWER_UNAUTHENTICATED_API="true") as flower:
        fleet.start_worker(2)
        waiting = fleet.swarm.submit(
            "Greet me", workspace=fleet.workspace, base_url=fleet.rehearse("ask").url, mode="plan", ask_seconds=60
        )
        root = waiting.view().root_id
        fleet.wait_state(root, "parked")
        wait_for("its row says so", lambda: (_row(flower, root) or {}).get("state") == "PARKED")
        failing = fleet.submit("x", fleet.rehearse(_REFUSED))
        failing.wait(60)
        failed = failing.view().root_id
        wait_for("it has failed", lambda: (_row(flower, failed) or {}).get("state") == "FAILURE")
        assert _row(flower, failed)["exception"] == failing.view().reason != ""
        assert _row(flower, root)["state"] == "PARKED"


_REFUSED = """
name: refused
rules: [{reply: {text: never}}]
faults: [{kind: '400'}]
"""


def _ended_rows(flower: Flower, ids: list[str]) -> dict[str, Any] | None:
    rows = {agent_id: _row(flower, agent_id) for agent_id in ids}
    return rows if all(row and row["state"] == "SUCCESS" for row in rows.values()) else None
