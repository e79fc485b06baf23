"""Workers whose clock is wrong, and records that only a newer worker understands.

Tests of swarm/runtime/loop.py, tasks/agent_task.py.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.needs import lack
from tests.waiting import wait_for


def _faketime() -> str:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    return str(found[0]) if found else lack("libfaketime", "it is not installed (Debian: faketime)")


def _steps(fleet: Fleet) -> int:
    """How many steps the server was asked for."""
    return int(fleet.swarm.store.keyspace.client.info("commandstats").get("cmdstat_fcall", {}).get("calls", 0))


@pytest.mark.parametrize("skew", ["-60s", "+60s"])
def test_a_worker_whose_clock_is_a_minute_wrong_decides_nothing_by_it(fleet: Fleet, skew: str) -> None:
    """It waits for an overloaded model, parks for a time, and keeps a job's limit."""
    worker = fleet.start_worker(1, LD_PRELOAD=_faketime(), FAKETIME=skew, DONT_FAKE_MONOTONIC="1")
    server = fleet.rehearse(
        """
name: waits
rules:
  - {when: {turn: 0, prompt: x}, reply: {tools: [
      {name: Agent, input: {description: a slow child, prompt: slow, run_in_background: true}}]}}
  - {when: {turn: 1, prompt: x}, reply: {tools: [{name: WaitAgents, input: {timeout_seconds: 20}}]}}
  - {when: {turn: 0, prompt: slow}, reply: {text: late}}
  - reply: {text: "{last_result}"}
faults:
  - {kind: 429, retry_after: 8, when: {prompt: slow}, times: 1}
"""
    )
    before = _steps(fleet)
    job = fleet.submit("x", server, timeout_seconds=40.0)
    view = job.wait(45)
    assert (view.state, view.reason) == ("completed", "")
    assert "is at work any more" in view.text, "it waited until its child had ended"
    assert _steps(fleet) - before < 500, "nobody asked again and again to park"
    assert worker.process.poll() is None


def test_an_agent_that_only_a_newer_worker_can_read_is_left_for_it(fleet: Fleet) -> None:
    job = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse())
    root, client = job.view().root_id, fleet.swarm.store.keyspace.client
    spec = client.hget(f"swarm:agent:{root}", "spec")
    client.hset(f"swarm:agent:{root}", "spec", json.dumps({**json.loads(spec), "dreams": True}))
    worker = fleet.start_worker(1)
    wait_for("it was put back twice", lambda: worker.text().count("agent.unreadable") > 1)
    other = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse()).wait(20)
    assert other.state == "completed"
    fleet.wait_state(root, "queued")
    assert client.hget(f"swarm:agent:{root}", "deaths") is None
    client.hset(f"swarm:agent:{root}", "spec", spec)
    assert job.wait(30).state == "completed", "a worker that can read it takes it"


def _newer(document: str) -> str:
    """A record as a newer version may write it: nothing that this one can take for something else."""
    return json.dumps(
        {**json.loads(document), "v": 2, "definitions": ["in another form"], "rules": {"in": "another form"}}
    )


@pytest.mark.parametrize("snapshot", ["catalogue", "rules"])
def test_an_agent_of_a_job_whose_snapshots_a_newer_version_wrote_is_left_for_it(fleet: Fleet, snapshot: str) -> None:
    server = fleet.rehearse(
        """
name: runs a command
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Bash, input: {command: "echo ran >> log"}}]}}
  - reply: {text: fine}
"""
    )
    job = fleet.submit("x", server)
    root, client = job.view().root_id, fleet.swarm.store.keyspace.client
    known = client.hget(f"swarm:job:{job.id}", snapshot)
    client.hset(f"swarm:job:{job.id}", snapshot, _newer(known or "{}"))
    worker = fleet.start_worker(1)
    wait_for("it was put back twice", lambda: worker.text().count("agent.unreadable") > 1)
    fleet.wait_state(root, "queued")
    assert client.hget(f"swarm:agent:{root}", "deaths") is None
    assert not (fleet.workspace / "log").exists()
    client.hset(f"swarm:job:{job.id}", snapshot, known or "")
    view = job.wait(30)
    assert (view.state, view.text) == ("completed", "fine"), "a worker that can read it takes it"
    assert (fleet.workspace / "log").read_text() == "ran\n"


def test_an_agent_whose_needs_a_newer_version_wrote_is_left_for_it(fleet: Fleet) -> None:
    job = fleet.submit("TREE depth=0 fanout=0 steps=1", fleet.rehearse())
    root, client = job.view().root_id, fleet.swarm.store.keyspace.client
    needs = client.hget(f"swarm:agent:{root}", "needs")
    client.hset(f"swarm:agent:{root}", "needs", json.dumps({"model": ["one", "of", "these"]}))
    client.hset("swarm:workers", "newer", json.dumps({"lacks": ["in another form"]}))
    client.zadd("swarm:workers:silent", {"newer": time.time() + 600})
    worker = fleet.start_worker(1)
    wait_for("it was left twice", lambda: worker.text().count("agent.unreadable") > 1)
    assert (job.view().state, job.find_unmet()) == ("running", "")
    assert client.hmget(f"swarm:agent:{root}", "deaths", "gen") == [None, "0"]
    client.hset(f"swarm:agent:{root}", "needs", needs)
    assert job.wait(30).state == "completed"


def test_what_an_agent_does_now_is_told_only_by_who_runs_it_and_brings_no_expired_record_back(fleet: Fleet) -> None:
    job = fleet.submit("x", fleet.rehearse())
    root, store = job.view().root_id, fleet.swarm.store
    old = store.agents.claim(root, "one", 60)
    store.agents.hand_over(old, "a deploy")  # type: ignore[arg-type]
    new = store.agents.claim(root, "other", 60)
    store.events.show_activity(new, "new")  # type: ignore[arg-type]
    store.events.show_activity(old, "old")  # type: ignore[arg-type]
    assert store.keyspace.client.hget(f"swarm:agent:{root}", "activity") == "new"
    store.keyspace.client.delete(f"swarm:agent:{root}")
    store.events.show_activity(new, "later")  # type: ignore[arg-type]
    assert not store.events.emit_once(job.id, "bounded", root, why="it is gone")
    assert not store.keyspace.client.exists(f"swarm:agent:{root}")
