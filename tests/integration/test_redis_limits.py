"""Redis at its limits: its memory is used up, its primary dies and a replica takes over.

Tests of swarm/cli/doctor.py, swarm/store/outage.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from swarm import Settings
from swarm.cli.doctor import run_checks
from swarm.core.errors import RedisFull, UnknownAgent
from swarm.store.forgetting import Forgetting
from swarm.store.values import KeptOutput, OutputBounds
from tests.fleet import Fleet
from tests.job_world import StoredJob, open_store
from tests.needs import need_program
from tests.redis_servers import Group
from tests.waiting import wait_for


def test_a_redis_without_memory_stops_work_and_loses_nothing(fleet: Fleet) -> None:
    worker = fleet.start_worker(2)
    job = fleet.submit("TREE depth=2 fanout=3 steps=3", fleet.rehearse(latency_seconds=0.1))
    client = fleet.swarm.store.keyspace.client
    wait_for("work is going on", lambda: job.view().turns > 5)
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    with pytest.raises(RedisFull, match="nothing new can start"):
        fleet.submit("TREE depth=0 fanout=0 steps=0", fleet.rehearse())
    stopped_at = job.view().turns
    wait_for("a worker has said why", lambda: "maxmemory" in worker.text())
    assert not job.view().ended and job.view().turns <= stopped_at + 2
    client.config_set("maxmemory", 0)
    view = job.wait(60)
    assert (view.state, view.text, view.agents) == ("completed", "DONE 13", 13)
    assert worker.process.poll() is None


def test_a_job_is_cancelled_and_forgotten_in_a_full_redis(fleet: Fleet) -> None:
    fleet.start_worker(2)
    job = fleet.submit("TREE depth=2 fanout=3 steps=30", fleet.rehearse(latency_seconds=0.1))
    wait_for("work is going on", lambda: job.view().turns > 5)
    client = fleet.swarm.store.keyspace.client
    client.config_set("maxmemory", 1)
    job.cancel()
    assert job.view().state == "cancelled"
    wait_for("all of it has ended", lambda: all(agent.ended for agent in job.agents()))
    wait_for("its processes are free", lambda: not fleet.swarm.store.leases.busy())
    Forgetting(fleet.swarm.store.keyspace).forget(job.id)
    with pytest.raises(UnknownAgent):
        job.view()


def test_near_its_limit_no_job_and_no_child_starts_and_then_all_goes_on(fleet: Fleet) -> None:
    store, server = fleet.swarm.store, fleet.rehearse(latency_seconds=0.1)
    fleet.start_worker(2)
    client, key = store.keyspace.client, store.keyspace.key("full")
    mapped = fleet.swarm.map("TREE depth=0 steps=2 {line}", over=["a", "b", "c"], base_url=server.url, max_running=1)
    client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.1))
    wait_for("a sweep has noticed", lambda: client.exists(key))
    assert "nothing new can start" in store.fleet.full()
    with pytest.raises(RedisFull, match=r"\d+ of \d+ MiB"):
        fleet.submit("TREE depth=0 steps=0", server)
    client.config_set("maxmemory", 0)
    wait_for("a sweep has noticed", lambda: not store.fleet.full())
    wait_for("the map went on", lambda: mapped.view().ended_at)
    assert mapped.view().completed == 3
    assert fleet.submit("TREE depth=1 fanout=2 steps=1", server).wait(60).state == "completed"


def test_an_agent_keeps_a_bounded_number_of_bytes_and_is_told_of_dropped_ones(unmanned: Fleet) -> None:
    store = open_store(unmanned)
    job = StoredJob(store, unmanned)
    claim = job.take_claim(job.spec.agent_id)
    keep = partial(store.journals.keep_output, claim, bounds=OutputBounds(agent=100, job=150))
    assert keep("first", "x" * 60) == KeptOutput(dropped=[])
    assert keep("second", "y" * 40) == KeptOutput(dropped=[])
    assert keep("third", "z" * 50) == KeptOutput(dropped=["first"])
    assert store.journals.load_output(claim.agent_id, "first") is None
    assert store.journals.load_output(claim.agent_id, "third") == "z" * 50
    assert keep("huge", "x" * 101) == KeptOutput(over="agent", bound=100)
    assert store.keyspace.client.hget(store.keyspace.key("agent", claim.agent_id), "kept") == "90"


@pytest.fixture
def group() -> Iterator[Group]:
    started = Group(need_program("redis-server"))
    yield started
    started.close()


def test_doctor_asks_for_a_primary_that_takes_nothing_without_its_replica(group: Group) -> None:
    def remedy() -> str:
        return next(check.remedy for check in run_checks(Settings(redis_url=group.url)) if check.name == "Redis")

    assert remedy() == ""
    group.client().config_set("min-replicas-to-write", 0)
    assert "set min-replicas-to-write 1" in remedy()


def test_a_replica_takes_over_under_load_and_the_job_goes_on(group: Group) -> None:
    fleet = Fleet(redis_url=group.url)
    try:
        fleet.start_worker(2)
        job = fleet.submit("TREE depth=2 fanout=3 steps=4", fleet.rehearse(latency_seconds=0.2))
        wait_for("work is going on", lambda: job.view().turns > 8)
        group.kill_primary()
        view = job.wait(90)
        assert (view.state, view.text, view.agents) == ("completed", "DONE 13", 13)
        assert all(worker.process.poll() is None for worker in fleet.workers)
    finally:
        fleet.close()
