"""What workers have and agents need: whoever cannot serve an agent leaves it as it is, for others.

Tests of swarm/__main__.py, swarm/agent/needs.py, swarm/store/callbacks.py, tasks/heartbeat.py.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from celery import Celery

from swarm.agent.needs import Has, Needs, find_common_lack, find_unmet
from swarm.client.swarm import Job
from swarm.core.errors import UnknownBroker
from swarm.store.callbacks import Callbacks
from tests.e2e.prepared import prepared_swarm
from tests.fleet import Fleet
from tests.waiting import wait_for

ANSWER = "name: fine\nrules: [{reply: {text: fine}}]\n"


@pytest.fixture
def keyless() -> Iterator[Fleet]:
    """A fleet without a key for any model."""
    with closing(Fleet(sandbox="off", recheck_seconds=1.0)) as fleet:
        yield fleet


def _submit(fleet: Fleet, prompt: str = "hello", **order: Any) -> Job:
    """A job for the workers' own model."""
    return fleet.swarm.submit(prompt, agent="general-purpose", workspace=fleet.workspace, **order)


def test_a_worker_without_the_model_leaves_the_agent_queued_and_says_so_once(keyless: Fleet) -> None:
    worker = keyless.start_worker(1)
    job = _submit(keyless)
    lack = wait_for("it is known that nobody can run it", job.find_unmet)
    assert "ANTHROPIC_API_KEY" in lack and keyless.swarm.find_lacks() == {job.id: lack}
    rehearsed = keyless.submit("hello", keyless.rehearse(ANSWER)).wait(30)
    assert rehearsed.text == "fine"
    [root] = job.agents()
    assert (root.state, root.turns, root.deaths, root.unserved) == ("queued", 0, 0, lack)
    assert not keyless.swarm.journal(root.id)
    wait_for("it says so", lambda: "worker.unfit" in worker.text())
    assert worker.text().count("worker.unfit") == 1


def test_a_provider_that_cannot_be_had_costs_the_agent_nothing() -> None:
    with closing(Fleet(provider="vertex", sandbox="off")) as fleet:
        fleet.start_worker(1, ANTHROPIC_VERTEX_PROJECT_ID="", CLOUD_ML_REGION="")
        job = _submit(fleet)
        assert "vertex" in wait_for("it is known that nobody can run it", job.find_unmet)
        assert job.agents()[0].state == "queued" and not job.agents()[0].turns


@pytest.mark.parametrize("status", ["401", "403"])
def test_a_key_that_is_refused_is_the_workers_fault_and_is_tried_again_later(keyless: Fleet, status: str) -> None:
    server = keyless.rehearse(
        f"name: locked\nfaults: [{{kind: {status}, times: 1}}]\nrules: [{{reply: {{text: fine}}}}]\n"
    )
    keyless.start_worker(1, SWARM_BASE_URL=server.url)
    job = _submit(keyless)
    view = job.wait(60)
    assert (view.state, view.text, view.turns) == ("completed", "fine", 1)
    assert not [entry for entry in keyless.swarm.journal(view.root_id) if entry.kind == "model_failed"]


def test_agents_go_to_the_worker_that_has_the_model(keyless: Fleet) -> None:
    keyless.start_worker(2)
    able = keyless.start_worker(2, SWARM_BASE_URL=keyless.rehearse().url)
    view = _submit(keyless, "TREE depth=1 fanout=4 steps=2").wait(60)
    assert (view.state, view.text) == ("completed", "DONE 5")
    wait_for("it has told of all", lambda: able.text().count("agent.completed") == 5)


def test_many_that_nobody_can_serve_keep_nobody_from_being_served_and_no_worker_busy(keyless: Fleet) -> None:
    keyless.start_worker(2)
    store = keyless.swarm.store
    jobs = [_submit(keyless) for _ in range(20)]
    wait_for("all were left", lambda: store.keyspace.client.zcard(store.keyspace.key("aside")) == 20)
    assert keyless.submit("hello", keyless.rehearse(ANSWER)).wait(20).text == "fine"
    news = store.fleet.aside_news()
    time.sleep(6)  # the outbox would have sent for them again by now
    assert store.fleet.aside_news() == news, "nobody asks again and again"
    server = keyless.rehearse(ANSWER)
    keyless.start_worker(2, SWARM_BASE_URL=server.url)
    assert {job.wait(30).text for job in jobs} == {"fine"}
    assert server.stats()["requests"] == 20


def test_who_can_serve_has_its_messages_while_it_is_busy_and_others_work_on(keyless: Fleet) -> None:
    slow = keyless.rehearse("name: slow\nrules: [{reply: {text: fine, latency_seconds: 4}}]\n")
    keyless.start_worker(2)
    able = keyless.start_worker(2, SWARM_BASE_URL=slow.url)
    jobs = [_submit(keyless) for _ in range(6)]
    wait_for("it is busy", lambda: slow.stats()["in_flight"] == 2)
    rehearsed = keyless.submit("hello", keyless.rehearse(ANSWER))
    assert rehearsed.wait(30).text == "fine"
    assert slow.stats()["requests"] < 6, "the other worker has nothing else to do"
    assert {job.wait(60).text for job in jobs} == {"fine"}
    wait_for("it has told of them", lambda: "agents.fetched" in able.text())
    assert slow.stats()["requests"] == 6
    store = keyless.swarm.store
    wait_for("nothing is left", lambda: not store.keyspace.client.zcard(store.keyspace.key("aside")))


def test_a_worker_that_is_for_one_job_leaves_all_others(keyless: Fleet) -> None:
    server = keyless.rehearse(ANSWER)
    other, own = keyless.submit("hello", server), keyless.submit("hello", server)
    keyless.start_worker(1, SWARM_ONLY_JOB=own.id)
    assert own.wait(30).text == "fine"
    assert wait_for("nobody is there for the other one", other.find_unmet)
    assert other.agents()[0].state == "queued"
    keyless.start_worker(1)
    assert other.wait(30).text == "fine"


def test_status_tree_and_doctor_say_which_jobs_nobody_can_serve_or_tell_the_end_of_and_why(keyless: Fleet) -> None:
    worker, store = keyless.start_worker(1), keyless.swarm.store
    Callbacks(store.keyspace).know(["shop"])
    job = _submit(keyless, on_end=Celery("shop").signature("shop.told"), broker="shop")
    lack = wait_for("it is known that nobody can run it", job.find_unmet)

    def run(*words: str) -> str:
        command = [prepared_swarm(), *words]
        ran = subprocess.run(command, env=keyless.environment(), cwd=keyless.folder, capture_output=True, text=True)
        return ran.stdout

    assert f"waits   {job.id}: no worker can run it: {lack}" in run("status")
    assert json.loads(run("status", "--json"))["unserved"] == {job.id: lack}
    assert f"no worker can run it: {lack}"[:60] in run("tree", job.id)
    [check] = [check for check in json.loads(run("doctor", "--json")) if check["name"] == "waiting jobs"]
    assert (check["ok"], check["found"]) == (False, f"no worker can run {job.id}: {lack}")
    assert check["found"] in " ".join(run("doctor").split())
    keyless.swarm.cancel(job.view().root_id)
    # Meanwhile no worker has named the broker for a week; what is due there is not forgotten for that.
    store.keyspace.client.zadd(store.keyspace.key("brokers"), {"shop": time.time() - 8 * 86_400})
    stranded = "callbacks of 1 ended job cannot be published: no worker knows the broker shop"
    assert f"waits   {stranded}; name it" in (told := run("status")) and "no worker can run it" not in told
    [check] = [check for check in json.loads(run("doctor", "--json")) if check["name"] == "other brokers"]
    assert (check["ok"], check["found"]) == (False, stranded)
    wait_for("the worker has told of it", lambda: worker.text().count("callbacks.stranded") == 1)
    Callbacks(store.keyspace).know(["market"])
    assert Callbacks(store.keyspace).stranded() == json.loads(run("status", "--json"))["stranded"] == {"shop": 1}
    with pytest.raises(UnknownBroker):
        _submit(keyless, on_end=Celery("shop").signature("shop.told"), broker="shop")
    Callbacks(store.keyspace).know(["shop"])
    assert Callbacks(store.keyspace).stranded() == {}
    assert json.loads(run("status", "--json"))["unserved"] == {}


def test_what_a_worker_lacks_is_found_by_model_and_job() -> None:
    plain, rehearsed = Needs(job="job-1", model="claude-x"), Needs(job="job-1")
    keyless, narrow = Has(lacks={"*": "no key"}), Has(lacks={"claude-x": "not yours"})
    assert find_unmet(plain, Has()) == find_unmet(rehearsed, keyless) == ""
    assert find_unmet(plain, keyless) == "no key" and find_unmet(plain, narrow) == "not yours"
    assert find_unmet(Needs(job="job-1", model="claude-y"), narrow) == ""
    assert "job-2" in find_unmet(rehearsed, Has(only_job="job-2"))
    assert find_common_lack(plain, [keyless, narrow]) == "no key; not yours"
    script = Needs(job="j", wants=("workflow:python",))
    assert find_unmet(script, Has()).startswith("it lacks support for workflows in Python (pip install")
    other = Has(only_job="x", offers={"workflow:python": ""})
    assert find_common_lack(script, [other]) == "no worker takes this agent", "only because it serves another job"
    assert find_common_lack(plain, [keyless, Has()]) == ""
    assert "no worker" in find_common_lack(plain, []) and "no worker" in find_common_lack(plain, [Has(only_job="x")])
