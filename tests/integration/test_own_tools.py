"""Functions as tools on a real worker: used under rules, their failures results, held by the sandbox where they ask for that.

Tests of swarm/cli/tools.py, swarm/definitions/own/child.py, swarm/tools/own/sandboxed.py, swarm/tools/own/threads.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from swarm.agent.entries import ToolFinished
from swarm.client.swarm import Job
from tests.fleet import Fleet, Worker
from tests.needs import need_sandbox
from tests.waiting import wait_for

OUTSIDE = Path(__file__).resolve().parents[1] / "outside"


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[Fleet, Worker]]:
    """A fleet whose worker has the tools of the shop, and is told of some that are nowhere."""
    with open_shop() as opened:
        yield opened


@contextmanager
def open_shop(**settings: str) -> Iterator[tuple[Fleet, Worker]]:
    with closing(Fleet(**settings)) as fleet, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDE))
        path = os.pathsep.join([str(OUTSIDE), str(OUTSIDE.parents[1])])
        ledger = str(fleet.folder / "ledger.db")
        worker = fleet.start_worker(1, PYTHONPATH=path, SHOP_LEDGER=ledger, SWARM_TOOLS="shop,nowhere_to_be_found")
        fleet.settings = fleet.swarm.settings = fleet.settings.model_copy(update={"tools": "shop"})
        yield fleet, worker


def use(fleet: Fleet, calls: str, *, allow: list[str]) -> Job:
    """A job whose agent makes these calls, and is done then."""
    scenario = f"""
name: shop
rules:
  - {{name: done, when: {{turn: 1+}}, reply: {{text: done}}}}
  - {{name: use them, reply: {{tools: [{calls}]}}}}
"""
    given = {"workspace": fleet.workspace, "base_url": fleet.rehearse(scenario).url, "agent": "general-purpose"}
    return fleet.swarm.submit("Sell.", allow=allow, ask_seconds=0, **given)


def results_of(fleet: Fleet, job: Job) -> list[ToolFinished]:
    assert job.wait(60).text == "done"
    return [entry for entry in fleet.swarm.journal(job.view().root_id) if isinstance(entry, ToolFinished)]


def test_an_agent_uses_functions_under_rules_and_every_failure_is_a_result(shop: tuple[Fleet, Worker]) -> None:
    fleet, worker = shop
    calls = """
        {name: stock, input: {sku: abc}},
        {name: charge_card, input: {account: acme-1, cents: 5}},
        {name: charge_card, input: {account: other, cents: 5}},
        {name: charge_card, input: {account: closed-1, cents: 5}},
        {name: charge_card, input: {account: acme-1}},
        {name: hang, input: {way: loop}}
    """
    job = use(fleet, calls, allow=["ChargeCard(acme-*)", "charge_card(closed-1)", "hang"])
    by_call = {result.tool_use_id: result for result in results_of(fleet, job)}
    [reply] = [entry for entry in fleet.swarm.journal(job.view().root_id) if entry.kind == "assistant"][:1]
    stock, charged, other, closed, wrong, hung = (
        by_call[block["id"]] for block in reply.content if block["type"] == "tool_use"
    )
    assert json.loads(stock.text) == {"sku": "abc", "count": 3, "depth": 0}
    assert json.loads(charged.text)["key"] == f"{job.view().root_id}/{charged.tool_use_id}"
    assert other.is_error and "charge_card reaches the network and no rule allows this call" in other.text
    assert (closed.is_error, closed.text) == (True, "the account closed-1 is closed")
    assert wrong.is_error and "the parameter 'cents' is missing" in wrong.text
    assert hung.is_error and "was interrupted" in hung.text
    lines = [event.fields.get("activity") for event in job.follow() if event.kind == "progress"]
    assert "stock: counting abc" in lines
    assert "No module named 'nowhere_to_be_found'" in worker.text(), "the worker says so, and goes on without"


def test_a_sandboxed_function_sees_the_workspace_and_no_secret_and_dies_at_its_time(shop: tuple[Fleet, Worker]) -> None:
    fleet, _ = shop
    need_sandbox(fleet.settings.sandbox)
    inside = fleet.workspace / "inside"
    calls = f"""
        {{name: look_around, input: {{write: {inside}}}}},
        {{name: wait_in_sandbox, input: {{write: {inside}}}}}
    """
    job = use(fleet, calls, allow=["look_around", "wait_in_sandbox"])
    looked, killed = results_of(fleet, job)
    assert json.loads(looked.text) == {"written": False, "secrets": [], "same_folder": True}, "it is for reading only"
    assert killed.is_error and "did not end within 5 s and was killed" in killed.text and inside.exists()
    lines = [event.fields.get("activity") for event in job.follow() if event.kind == "progress"]
    assert "look_around: looking" in lines


def test_a_cancel_ends_a_call_that_looks_for_it_and_one_that_does_not(shop: tuple[Fleet, Worker]) -> None:
    fleet, _ = shop
    for way in ("forever", "blind"):
        job = use(fleet, f"{{name: linger, input: {{way: {way}}}}}", allow=["linger"])
        wait_for("it lingers", lambda job=job: "linger" in job.agents()[0].activity)
        job.cancel()
        # One process serves all: the next job could not end if this call went on.
        assert [result.text for result in results_of(fleet, use(fleet, "{name: stock, input: {sku: a}}", allow=[]))]


def test_a_sandboxed_function_runs_where_landlock_is_all_there_is() -> None:
    need_sandbox("landlock")
    with open_shop(sandbox="landlock") as (fleet, _):
        # What the worker imports from holds the state folder, which Landlock could not take away from it again.
        job = use(fleet, f"{{name: look_around, input: {{write: {fleet.workspace}/x}}}}", allow=["look_around"])
        [looked] = results_of(fleet, job)
        assert json.loads(looked.text) == {"written": False, "secrets": [], "same_folder": True}
