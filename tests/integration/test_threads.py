"""Agents as threads of one worker: each can be stopped, lost, handed over and timed out without harm to its neighbours.

Tests of swarm/models/interruption.py, tasks/thread_pool.py.
"""

from __future__ import annotations

import signal

import pytest

from swarm import Job
from swarm.core.ids import root_agent_id
from tests.fleet import Fleet
from tests.waiting import wait_for

SLOW = """
name: slow
rules:
  - {when: {turn: 0}, reply: {latency_seconds: 60, text: never}}
"""
CALL = """
name: call
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Bash, input: {command: 'echo began >> log; sleep 2; echo ended >> log'}}]}}
  - {when: {turn: "1+"}, reply: {text: DONE}}
"""


def _deaths(fleet: Fleet, job: Job) -> int:
    return int(fleet.swarm.store.keyspace.client.hget(f"swarm:agent:{root_agent_id(job.id)}", "deaths") or 0)


def _lines(fleet: Fleet) -> list[str]:
    log = fleet.workspace / "log"
    return log.read_text().split() if log.exists() else []


@pytest.mark.long
def test_32_agents_work_at_once_in_one_process_and_further_ones_follow_them(fleet: Fleet) -> None:
    worker, server = fleet.start_worker(32, pool="threads"), fleet.rehearse(latency_seconds=0.3)
    jobs = [fleet.submit("TREE depth=0 steps=4", server) for _ in range(64)]
    wait_for("all threads are busy", lambda: sum(fleet.swarm.store.leases.busy().values()) == 32)
    assert [job.wait(120).text for job in jobs] == ["DONE 1"] * 64
    assert worker.children() == [] and not any(_deaths(fleet, job) for job in jobs)


def test_a_cancel_ends_one_agents_model_call_at_once_and_no_other(fleet: Fleet) -> None:
    worker, server = fleet.start_worker(2, pool="threads"), fleet.rehearse(SLOW)
    first, second = fleet.submit("x", server), fleet.submit("y", server)
    wait_for("both wait for the model", lambda: server.stats()["in_flight"] == 2)
    first.cancel()
    wait_for("the thread has ended", lambda: worker.text().count("agent.given_up") == 1, 30)
    assert first.view().state == "cancelled" and second.view().state == "running"
    assert fleet.submit("hello", fleet.rehearse("hello")).wait(20).state == "completed", "its place is free"
    second.cancel()


def test_a_leaving_worker_hands_over_after_the_calls_under_way(fleet: Fleet) -> None:
    first, server = fleet.start_worker(8, pool="threads"), fleet.rehearse(CALL)
    jobs = [fleet.submit("x", server) for _ in range(8)]
    wait_for("all calls are under way", lambda: _lines(fleet).count("began") == 8)
    assert first.stop(signal.SIGTERM, 10) == 0
    fleet.start_worker(8)
    for job in jobs:
        assert (job.wait(60).text, _deaths(fleet, job)) == ("DONE", 0)
    assert sorted(_lines(fleet)) == ["began"] * 8 + ["ended"] * 8


def test_a_cold_stop_ends_the_worker_while_its_agents_wait_for_the_model(fleet: Fleet) -> None:
    worker, server = fleet.start_worker(4, pool="threads"), fleet.rehearse(SLOW)
    jobs = [fleet.submit("x", server) for _ in range(4)]
    wait_for("all wait for the model", lambda: server.stats()["in_flight"] == 4)
    worker.stop(signal.SIGQUIT, 15)
    for job in jobs:
        fleet.wait_state(root_agent_id(job.id), "queued")


@pytest.mark.long
def test_agents_of_a_killed_process_continue_on_a_worker_with_processes(fleet: Fleet) -> None:
    worker, server = fleet.start_worker(8, pool="threads"), fleet.rehearse(latency_seconds=0.5)
    jobs = [fleet.submit("TREE depth=0 steps=12", server) for _ in range(8)]
    wait_for("they work", lambda: all(job.view().turns > 1 for job in jobs))
    worker.kill()
    other = fleet.start_worker(4)
    assert [job.wait(120).text for job in jobs] == ["DONE 1"] * 8
    assert "agent.completed" in other.text()


def test_an_agent_beyond_the_hard_limit_loses_its_claim_and_leaves_its_place_to_another(fleet: Fleet) -> None:
    limits = {"SWARM_HARD_LIMIT_SECONDS": "3", "SWARM_SEGMENT_SECONDS": "1", "SWARM_MAX_DEATHS": "1"}
    worker, server = fleet.start_worker(1, pool="threads", **limits), fleet.rehearse(SLOW)
    hung = fleet.submit("x", server)
    assert hung.wait(60).state == "failed"
    assert "agent.hung" in worker.text()
    assert fleet.submit("hello", fleet.rehearse("hello")).wait(30).state == "completed"


def test_a_pool_of_greenlets_is_refused_in_a_sentence(fleet: Fleet) -> None:
    green = "celery.concurrency.gevent:TaskPool"
    worker = fleet.begin_worker(2, pool="custom", CELERY_CUSTOM_WORKER_POOL=green, PYTHONUNBUFFERED="1")
    assert worker.process.wait(60) != 0
    assert "Use -P prefork or -P threads" in worker.text()
