"""The account of money: what replies cost that were cut, interrupted or lost with their worker, and models without a price.

Tests of swarm/runtime/budget.py, swarm/runtime/model_call.py, swarm/runtime/side_requests.py,
swarm/models/reply.py, swarm/rehearsal/wire.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.agent.entries import Assistant, ModelFailed
from swarm.agent.history import LOST
from swarm.cli.output import show_cost
from swarm.cli.tree_fold import sum_money
from swarm.client.jobs import Job
from swarm.core.usage import NANO, Charge, Usage
from swarm.models.catalogue import charge_for
from swarm.store.store import Store
from swarm.streaming.live.reader import LiveReader
from tests.fleet import Fleet
from tests.integration.test_hooks_in_jobs import put
from tests.job_world import JobWorld
from tests.waiting import wait_for

CUT = "name: cut\nscript: tree\nseed: 7\nfaults: [{kind: cut, probability: 0.4}]\n"
JUDGED = f"""
name: judged
rules:
  - when: {{prompt: '(?s)JUDGE.*mark [37]'}}
    reply: {{text: '{{"ok": true, "reason": "{"word " * 400}"}}', latency_seconds: 3}}
  - when: {{prompt: 'JUDGE'}}
    reply: {{text: '{{"ok": true}}'}}
{
    "".join(
        f'''
  - when: {{turn: {turn}}}
    reply: {{tools: [{{name: Bash, input: {{command: "echo mark {turn + 1} {'x' * 4_000}"}}}}]}}'''
        for turn in range(8)
    )
}
  - reply: {{text: done}}
"""
PROMPT = "TREE depth=1 fanout=6 steps=3"


def _check_sums(fleet: Fleet, job: Job) -> None:
    """The job's sums are those of its agents, and their journals say the same."""
    agents, view = job.agents(), job.view()
    paid = [fleet.swarm.store.journals.history(agent.id).paid for agent in agents]
    usage = sum((one.usage for one in paid), Usage())
    assert sum((agent.usage for agent in agents), Usage()) == view.usage == usage
    assert sum(agent.reckoned_usd for agent in agents) == pytest.approx(view.reckoned_usd)
    assert sum(one.cost_usd for one in paid) == pytest.approx(view.reckoned_usd)
    assert sum(one.estimated_usd for one in paid) == pytest.approx(view.sums.estimated / NANO)


def _count_failures(fleet: Fleet, job: Job, kind: str) -> int:
    read = fleet.swarm.store.journals.read
    entries = [entry for agent in job.agents() for entry in read(agent.id)]
    return sum(isinstance(entry, ModelFailed) and entry.error_kind == kind for entry in entries)


def test_with_four_of_ten_streams_cut_the_job_counts_what_the_server_counts(at_work: Fleet) -> None:
    server = at_work.rehearse(CUT)
    job = at_work.submit(PROMPT, server)
    view = job.wait(120)
    assert view.text == "DONE 7" and _count_failures(at_work, job, "cut") >= 5
    told = Usage(**server.stats()["tokens"])
    assert view.usage.total_tokens == pytest.approx(told.total_tokens, rel=0.005)
    inputs = {"output_tokens": 0}
    assert view.usage.model_copy(update=inputs) == told.model_copy(update=inputs), "message_start told it"
    _check_sums(at_work, job)


def test_the_output_of_a_cut_reply_is_estimated_from_its_text(at_work: Fleet) -> None:
    server = at_work.rehearse(
        f"name: long\nrules: [{{reply: {{text: '{'word ' * 4_000}'}}}}]\nfaults: [{{kind: cut, times: 2}}]\n"
    )
    job = at_work.submit("Write.", server)
    view, told = job.wait(60), Usage(**server.stats()["tokens"])
    assert _count_failures(at_work, job, "cut") == 2
    assert view.usage.output_tokens == pytest.approx(told.output_tokens, rel=0.05)
    assert 0 < view.sums.estimated < view.sums.cost
    _check_sums(at_work, job)


def test_cut_replies_use_up_the_budget(at_work: Fleet) -> None:
    free = at_work.submit(PROMPT, at_work.rehearse()).wait(60)
    server = at_work.rehearse(CUT.replace("0.4", "0.7"))
    job = at_work.submit(PROMPT, server, budget_usd=free.reckoned_usd)
    view = job.wait(120)
    assert view.ended and view.reckoned_usd <= free.reckoned_usd
    assert view.usage.total_tokens == pytest.approx(sum(server.stats()["tokens"].values()), rel=0.005)
    _check_sums(at_work, job)


@pytest.mark.parametrize("budget", [None, 5.0])
def test_a_reply_lost_with_its_worker_is_charged_as_an_estimate(fleet: Fleet, budget: float | None) -> None:
    worker = fleet.start_worker()
    server = fleet.rehearse(latency_seconds=4.0)
    job = fleet.submit("TREE depth=0 fanout=0 steps=1", server, budget_usd=budget)
    wait_for("a request", lambda: server.stats()["in_flight"] == 1)
    worker.kill()
    fleet.start_worker()
    view = job.wait(120)
    assert view.state == "completed" and _count_failures(fleet, job, LOST) == 1
    assert 0 < view.sums.estimated < view.sums.cost
    _check_sums(fleet, job)


def test_a_reply_lost_by_a_cancel_is_charged_as_an_estimate(at_work: Fleet) -> None:
    server = at_work.rehearse(latency_seconds=10.0)
    job = at_work.submit(PROMPT, server)
    wait_for("a request", lambda: server.stats()["in_flight"] == 1)
    job.cancel()
    assert job.wait(60).sums.estimated > 0 and _count_failures(at_work, job, LOST) == 1
    _check_sums(at_work, job)


@pytest.mark.long
def test_requests_of_hooks_that_die_with_their_worker_are_counted_as_the_server_counts(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = {"type": "prompt", "prompt": "JUDGE $ARGUMENTS"}
    beside = {
        "type": "command",
        "command": f"! grep -q 'mark 5' || until [ -e {fleet.workspace}/go ]; do sleep 0.1; done",
    }
    home = tmp_path / "home"
    put(home, {"PreToolUse": [{"matcher": "Bash", "hooks": [judge, beside]}]})
    monkeypatch.setenv("HOME", str(home))
    server, worker = fleet.rehearse(JUDGED), fleet.start_worker(1)
    job = fleet.submit("go", server, mode="bypassPermissions")
    root = job.view().root_id

    def look(under_way: bool, turn: int) -> bool:
        """Whether a judge of this turn has begun its reply, or ended it beside a hook that still runs."""
        turns, noted = fleet.swarm.store.keyspace.client.hmget(
            fleet.swarm.store.keyspace.key("agent", root), "turns", "side_calls"
        )
        uses = [one["use"] for one in json.loads(noted or "{}").values()]
        # The input is no estimate any more.
        begun = [use for use in uses if use["cost"] > use.get("estimated", 0)]
        return int(turns or 0) == turn and any(("estimated" in use) == under_way for use in begun)

    for turn, under_way in ((3, True), (5, False), (7, True)):
        wait_for("a judge", lambda under_way=under_way, turn=turn: look(under_way, turn))
        worker.kill()
        (fleet.workspace / "go").touch()
        worker = fleet.start_worker(1)
    view = job.wait(120)
    assert view.state == "completed" and view.turns == 9 and _count_failures(fleet, job, LOST) == 3
    told = Usage(**server.stats()["tokens"])
    assert view.usage.total_tokens == pytest.approx(told.total_tokens, rel=0.005)
    assert 0 < view.sums.estimated < view.sums.cost
    assert fleet.swarm.store.keyspace.client.hget(fleet.swarm.store.keyspace.key("agent", root), "side_calls") is None
    _check_sums(fleet, job)


def test_a_model_without_a_price_costs_an_unknown_amount_and_not_nothing(unmanned: Fleet, store: Store) -> None:
    world = JobWorld(store, unmanned, team=False)
    world.start("a", teammate=False)
    usage = Usage(input_tokens=70, output_tokens=30)
    unknown = charge_for("claude-nova-9", usage)
    _append(world, "a", unknown)
    view, child = store.jobs.get(world.job_id), store.agents.get(world.ids["a"])
    assert (view.cost_usd, child.cost_usd, view.unpriced_tokens) == (None, None, 100)
    assert show_cost(view.cost_usd, view.unpriced_tokens) == "?"
    _append(world, "a", charge_for("claude-opus-5-5", Usage(output_tokens=60_000)))
    view = store.jobs.get(world.job_id)
    assert show_cost(view.cost_usd, view.unpriced_tokens) == "$1.20 + ?"
    assert sum_money(LiveReader(store).snapshot(world.job_id).agents.values()) == "$1.20 + ?"


def _append(world: JobWorld, name: str, charge: Charge) -> None:
    reply = Assistant(content=[], stop_reason="end_turn", **dict(charge))
    world.store.journals.append(world.claims[name], world.lengths[name] + 1, [reply])
    world.lengths[name] += 1
