"""Agents go where what they want is: tags, tools of one's own; what nobody has is said wherever somebody looks.

Tests of swarm/agent/needs.py, swarm/core/tags.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.agent.needs import Has, Needs, find_common_lack, find_differing, find_unmet
from swarm.client.swarm import Job
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.job_world import StoredJob
from tests.waiting import wait_for

OUTSIDE = Path(__file__).resolve().parents[1] / "outside"
PYTHONPATH = os.pathsep.join([str(OUTSIDE), str(OUTSIDE.parents[1])])
ANSWER = "name: fine\nrules: [{reply: {text: fine, latency_seconds: 0.1}}]\n"
PARENT = """
name: family
rules:
  - {when: {prompt: ^parent, turn: 0}, reply: {tools: [
      {name: Agent, input: {description: a, prompt: child, subagent_type: graphics}},
      {name: Agent, input: {description: b, prompt: child, subagent_type: graphics}},
      {name: Agent, input: {description: c, prompt: child, subagent_type: explore}}]}}
  - reply: {text: fine}
"""


def define(fleet: Fleet, name: str, keys: str) -> None:
    folder = fleet.workspace / ".claude" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: It is for tests.\n{keys}\n---\nDo as you are told.\n"
    (folder / f"{name}.md").write_text(text)


def ran_on(fleet: Fleet, job: Job) -> dict[str, set[str]]:
    """By agent, the workers that it ran on."""
    found: dict[str, set[str]] = {}
    for event in job.follow():
        if event.kind == "running":
            found.setdefault(event.agent_id, set()).add(event.fields["worker"])
    return found


def test_agents_go_to_workers_with_their_tags_and_others_to_anybody(fleet: Fleet) -> None:
    define(fleet, "graphics", "requires: [gpu]")
    fleet.start_worker(2)
    plain = set(fleet.swarm.store.fleet.staffed())
    lone = fleet.submit("hello", fleet.rehearse(ANSWER), agent="graphics")
    assert lone.warnings == ["the job waits because no worker can run it now: it lacks the tag gpu (SWARM_TAGS=gpu)"]
    assert fleet.submit("parent", fleet.rehearse(ANSWER)).wait(30).text == "fine", "nobody else waits"
    [root] = lone.agents()
    assert (root.state, root.unserved) == ("queued", "it lacks the tag gpu (SWARM_TAGS=gpu)")
    able = fleet.start_worker(1, SWARM_TAGS="gpu, quiet")
    with_gpu = set(fleet.swarm.store.fleet.staffed()) - plain
    assert lone.wait(30).text == "fine"
    family = fleet.submit("parent", fleet.rehearse(PARENT))
    assert family.wait(30).text == "fine" and family.warnings == []
    graphics = [agent.id for agent in family.agents() if agent.definition == "graphics"]
    where = ran_on(fleet, family)
    assert len(graphics) == 2 and all(where[agent_id] == with_gpu for agent_id in graphics)
    # Whoever had it dies with it: they wait, and say for what, until another one comes.
    slow = fleet.rehearse(ANSWER.replace("0.1", "8"))
    caught = fleet.submit("hello", slow, agent="graphics")
    wait_for("it runs", lambda: slow.stats()["in_flight"])
    able.kill()
    wait_for("nobody is left", lambda: caught.find_unmet() == "it lacks the tag gpu (SWARM_TAGS=gpu)", 40)
    fleet.start_worker(1, SWARM_TAGS="gpu")
    slow.close()
    wait_for("it was taken again", lambda: caught.agents()[0].state == "running", 40)


USE_STOCK = """
name: stock
rules:
  - {when: {turn: 0}, reply: {tools: [{name: stock, input: {sku: abc}}]}}
  - {reply: {text: "{last_result}"}}
"""


@pytest.mark.long
def test_agents_that_have_a_tool_of_ones_own_stay_with_the_workers_that_have_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(OUTSIDE))
    fleet.settings = fleet.swarm.settings = fleet.settings.model_copy(update={"segment_seconds": 0.01})
    fleet.start_worker(2, SWARM_TOOLS="missing_on_this_one")
    plain = set(fleet.swarm.store.fleet.staffed())
    fleet.start_worker(2, SWARM_TOOLS="shop", PYTHONPATH=PYTHONPATH)
    with_shop = set(fleet.swarm.store.fleet.staffed()) - plain
    fleet.settings = fleet.swarm.settings = fleet.settings.model_copy(update={"tools": "shop"})
    define(fleet, "seller", "tools: [Stock]")
    server = fleet.rehearse(USE_STOCK)
    jobs = [fleet.submit(f"count {number}", server, agent="seller") for number in range(3)]
    for job in jobs:
        assert '"count":3' in job.wait(40).text, "each turn is a segment of its own"
        assert set.union(*ran_on(fleet, job).values()) == with_shop
    # Who lists no tools has those of the worker that began it, and keeps them.
    free = [fleet.submit(f"count {number}", server) for number in range(2)]
    for job in free:
        root = job.wait(40).root_id
        given = {tool["name"] for tool in fleet.swarm.journal(root)[0].tools}  # type: ignore[union-attr]
        assert ("stock" not in given) or ran_on(fleet, job)[root] == with_shop
    status = subprocess.run(
        [sys.executable, "-m", "swarm", "status"],
        env={**fleet.environment(), "PYTHONPATH": PYTHONPATH},
        cwd=fleet.folder,
        capture_output=True,
        text=True,
    ).stdout
    assert "continues without: SWARM_TOOLS names missing_on_this_one" in status
    assert re.search(rf"has     {with_shop.pop()}: .*tool charge_card, ", status)


def test_who_wants_what_not_everybody_offers_is_not_sent_for_and_costs_others_no_place(
    store: Store, unmanned: Fleet
) -> None:
    for worker, offers in (("a", {}), ("b", {"tag:gpu": "", "tag:x": ""})):
        store.fleet.announce(worker, Has(offers=offers), 60)
        store.fleet.staff(worker, 1, 60)
    jobs = [StoredJob(store, unmanned) for _ in range(2)]
    definition = jobs[0].spec.definition.model_copy(update={"requires": ["gpu"]})
    for number in range(40):
        spec = jobs[0].spec.model_copy(
            update={"agent_id": f"agent-{number:016x}", "job_id": f"job-{number:016x}", "definition": definition}
        )
        assert store.jobs.submit(spec, catalogue="{}", retention_seconds=60).effect.publish == []
    assert len(store.fleet.aside(0, 100)) == 40 and set(store.leases.called()) == {job.spec.agent_id for job in jobs}
    store.fleet.take_aside(store.fleet.aside(0, 1))
    assert "agent-" + "0" * 16 in store.leases.called() and len(store.fleet.aside(0, 100)) == 39
    # Where everybody offers it, it goes the way of all.
    store.fleet.staff("a", 0, 60)
    spec = spec.model_copy(update={"agent_id": "agent-" + "f" * 16, "job_id": "job-" + "f" * 16})
    store.jobs.submit(spec, catalogue="{}", retention_seconds=60)
    assert spec.agent_id not in store.fleet.aside(0, 100)


def test_what_a_worker_lacks_is_named() -> None:
    needs = Needs(job="j", wants=("tag:gpu", "tool:charge_card"))
    assert (
        find_unmet(needs, Has())
        == "it lacks the tag gpu (SWARM_TAGS=gpu) and the tool charge_card (install its package there, or name its module in SWARM_TOOLS)"
    )
    broken = Has(offers={"tag:gpu": ""}, broken=("SWARM_TOOLS names shop: charge_card at shop.py:3 cannot be a tool",))
    assert find_unmet(needs, broken) == f"it lacks the tool charge_card ({broken.broken[0]})"
    able = Has(offers={"tag:gpu": "", "tool:charge_card": "1"})
    assert find_unmet(needs, able) == find_common_lack(needs, [broken, able]) == ""
    assert find_common_lack(needs, []).endswith(
        "which needs the tag gpu (SWARM_TAGS=gpu) and the tool charge_card (install its package there, or name its module in SWARM_TOOLS)"
    )
    other = Has(offers={"tool:charge_card": "2"})
    assert find_differing([able, other, able]) == ["charge_card"] and find_differing([able]) == []
