"""Redis at its limits: its memory is used up, its primary dies and a replica takes over.

Tests of swarm/cli/doctor.py, swarm/store/outage.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from swarm import Settings
from swarm.cli.doctor import run_checks
from tests.fleet import Fleet
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
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        fleet.submit("TREE depth=0 fanout=0 steps=0", fleet.rehearse())
    stopped_at = job.view().turns
    wait_for("a worker has said why", lambda: "maxmemory" in worker.text())
    assert not job.view().ended and job.view().turns <= stopped_at + 2
    client.config_set("maxmemory", 0)
    view = job.wait(60)
    assert (view.state, view.text, view.agents) == ("completed", "DONE 13", 13)
    assert worker.process.poll() is None


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
