"""Redis at its limits: its memory is used up, its primary dies and a replica takes over.

Tests of swarm/cli/doctor.py, swarm/store/outage.py, swarm/store/outputs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from swarm import Settings
from swarm.cli.doctor import run_checks
from swarm.core.errors import RedisFull, UnknownAgent
from swarm.objects.folder import FolderObjects
from swarm.replay.importer import freeze, import_past
from swarm.replay.past import read_past
from swarm.store.forgetting import Forgetting
from swarm.store.objects import JobObjects
from swarm.store.usage import UsageStore
from swarm.store.values import KeptOutput, NotSpawned, OutputBounds, Signals
from swarm.web.patches import Cursors, Viewed, WatchedParts, make_patch
from swarm.web.reads import read_jobs
from tests.fleet import Fleet
from tests.job_world import JobWorld, StoredJob, open_store
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
    waiting = fleet.submit("TREE depth=1 fanout=2 steps=1 think=2500", server)
    mapped = fleet.swarm.map("TREE depth=0 steps=2 {line}", over=["a", "b", "c"], base_url=server.url, max_running=1)
    client.setrange("padding", 40 << 20, "x")  # so that the share between near and full is some MiB
    client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.1))
    wait_for("a sweep has noticed", lambda: client.exists(key))
    assert "nothing new can start" in store.fleet.full() == read_jobs(fleet.swarm)["full"]
    tab = Viewed(WatchedParts(jobs=True), Cursors())
    assert make_patch(fleet.swarm, tab, {}, look=True)["full"] == tab.full != ""
    with pytest.raises(RedisFull, match=r"\d+ of \d+ MiB"):
        fleet.submit("TREE depth=0 steps=0", server)
    client.config_set("maxmemory", 0)
    wait_for("a sweep has noticed", lambda: not store.fleet.full())
    assert make_patch(fleet.swarm, tab, {}, look=True)["full"] == ""
    wait_for("the map went on", lambda: mapped.view().ended_at)
    assert mapped.view().completed == 3
    view = waiting.wait(60)
    assert (view.state, view.text) == ("completed", "DONE 3"), "its children waited"
    assert fleet.submit("TREE depth=1 fanout=2 steps=1", server).wait(60).state == "completed"


def test_an_agent_keeps_a_bounded_number_of_bytes_and_is_told_of_dropped_ones(unmanned: Fleet) -> None:
    store = open_store(unmanned)
    job = StoredJob(store, unmanned)
    claim = job.take_claim(job.spec.agent_id)
    keep = partial(store.outputs.keep, claim, bounds=OutputBounds(agent=100, job=150))
    assert keep("first", "x" * 60) == KeptOutput(dropped=[])
    assert keep("second", "y" * 40) == KeptOutput(dropped=[])
    assert keep("third", "z" * 50) == KeptOutput(dropped=["first"])
    assert store.outputs.load(claim.agent_id, "first") is None
    assert store.outputs.load(claim.agent_id, "third") == "z" * 50
    assert keep("huge", "x" * 101) == KeptOutput(over="agent", bound=100)
    assert store.keyspace.client.hget(store.keyspace.key("agent", claim.agent_id), "output_bytes") == "90"


def test_near_the_limit_a_child_waits_for_room_and_outputs_of_ended_agents_are_freed(
    unmanned: Fleet, tmp_path: Path
) -> None:
    objects = FolderObjects(tmp_path)
    store = open_store(unmanned, objects=objects)
    world = JobWorld(store, unmanned, team=False)
    world.start("ended", teammate=False), world.start("open", teammate=False)
    keep = partial(store.outputs.keep, bounds=OutputBounds(1 << 20, 1 << 20))
    for name in ("ended", "open"):
        keep(world.claims[name], "small", "x"), keep(world.claims[name], "large", "x" * 70_000)
    world.end("ended")

    def sweep(share: float) -> None:
        for lock in store.keyspace.client.keys(store.keyspace.key("rescue-lock", "*")):
            store.keyspace.client.delete(lock)
        store.leases.begin_sweep("worker", 1, 60, share)

    sweep(1e-9)
    assert isinstance(full := world.spawn("third", teammate=False), NotSpawned) and full.why == "full"
    assert keep(world.claims["open"], "more", "x").over == "Redis"
    assert store.outputs.load(world.ids["ended"], "small") is None
    assert store.outputs.load(world.ids["open"], "small") == "x"
    assert JobObjects(store.keyspace, objects).delete_orphans() == 1
    assert store.outputs.load(world.ids["open"], "large") == "x" * 70_000
    usage = UsageStore(store.keyspace)
    held = usage.job(world.job_id).held
    assert sorted((one.held.outputs, one.held.objects) for one in usage.agents(world.job_id))[-1] == (1, 70_000)
    assert (held.outputs, held.objects) == (1, 70_000)
    sweep(1.0)
    assert isinstance(world.spawn("third", teammate=False), Signals)


def test_large_outputs_are_objects_that_go_when_they_are_dropped_replaced_and_forgotten(
    unmanned: Fleet, tmp_path: Path
) -> None:
    store = open_store(unmanned, objects=FolderObjects(tmp_path))
    job, again = StoredJob(store, unmanned), StoredJob(store, unmanned)
    claim, other = job.take_claim(job.spec.agent_id), again.take_claim(again.spec.agent_id)
    keep = partial(store.outputs.keep, bounds=OutputBounds(agent=250_000, job=300_000))
    texts = {name: name * 100_000 for name in "abcd"}

    def files() -> int:
        return len([path for path in tmp_path.rglob("*") if path.is_file()])

    assert keep(claim, "a", texts["a"]) == keep(claim, "b", texts["b"]) == KeptOutput(dropped=[])
    assert keep(other, "same", texts["a"]) == KeptOutput(dropped=[])
    used = store.keyspace.client.memory_usage(store.keyspace.key("bodies", claim.agent_id))
    assert files() == 3 and used < 1_000 and store.outputs.load(claim.agent_id, "b") == texts["b"]
    assert keep(claim, "c", texts["c"]) == KeptOutput(dropped=["a"])
    assert keep(claim, "b", texts["d"]) == KeptOutput(dropped=[])
    assert (store.outputs.load(claim.agent_id, "a"), store.outputs.load(claim.agent_id, "b")) == (None, texts["d"])
    assert keep(claim, "e", "x" * 300_000) == KeptOutput(over="agent", bound=250_000)
    assert files() == 3 and not store.keyspace.client.exists(store.keyspace.key("loose"))
    assert store.outputs.load(other.agent_id, "same") == texts["a"], "another job's text is its own"
    store.agents.cancel(claim.agent_id, "enough")
    assert store.keyspace.client.ttl(store.keyspace.key("bodies", claim.agent_id)) > 0
    past = read_past(store, job.job_id)
    Forgetting(store.keyspace).forget(job.job_id)
    objects = JobObjects(store.keyspace, FolderObjects(tmp_path))
    assert objects.delete_orphans() == 1 and files() == 1
    import_past(store, freeze(past))
    assert dict(store.outputs.all(claim.agent_id)) == {"c": texts["c"], "b": texts["d"]} and files() == 3
    objects.put_loose(again.job_id, b"of a process that died")
    store.keyspace.client.zadd(
        store.keyspace.key("loose"), {store.keyspace.client.zrange(store.keyspace.key("loose"), 0, 0)[0]: 1}
    )
    assert files() == 4 and objects.delete_orphans() == 1 and files() == 3


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
