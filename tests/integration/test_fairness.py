"""Jobs share the fleet by turns, whatever their size; within a job trees finish instead of widening.

Tests of tasks/fetcher.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from swarm.agent.journaled import Condition
from swarm.store.store import Store
from swarm.store.values import Refused
from tests.fleet import Fleet
from tests.job_world import JobWorld, StoredJob, open_store
from tests.waiting import wait_for


@pytest.fixture
def alone(unmanned: Fleet) -> Store:
    """A swarm whose steps are made once: what each of them publishes is told."""
    return open_store(unmanned)


def make_job(store: Store, fleet: Fleet, children: int, **limits: int) -> JobWorld:
    """A job with so many queued children: `c0`, `c1` …"""
    world = JobWorld(store, fleet, team=False, **{"max_agents": 10_000, **limits})
    for i in range(children):
        world.spawn(f"c{i}", teammate=False)
    return world


def take_called(store: Store) -> list[str]:
    """A worker takes everybody who is called now; the jobs they are of, in the order in which they were called."""
    called = store.keyspace.client.zrange(store.keyspace.key("ready"), 0, -1)
    jobs = [store.agents.get(agent_id).job_id for agent_id in called]
    for agent_id in called:
        store.agents.claim(agent_id, "worker", 60)
    return jobs


def test_a_job_of_one_step_does_not_wait_for_the_whole_of_a_large_one(alone: Store, unmanned: Fleet) -> None:
    alone.fleet.staff("worker", 2, 60)
    make_job(alone, unmanned, 100)
    assert alone.keyspace.client.zcard(alone.keyspace.key("ready")) <= 4, "only as many are called as can soon run"
    small = StoredJob(alone, unmanned)
    free(alone, 1)
    take_called(alone)
    for _ in range(4):
        if alone.agents.get(small.spec.agent_id).state != "queued":
            return
        free(alone, 1)
        take_called(alone)
    pytest.fail("it was not its turn")


def free(store: Store, many: int) -> None:
    """So many of those that run give their process back."""
    for agent_id in store.keyspace.client.zrange(store.keyspace.key("leases"), 0, many - 1):
        record = store.agents.get(agent_id)
        store.keyspace.run("hand_over", agent_id, record.generation, "others wait", 1)


def test_jobs_have_their_turns_by_their_weights(alone: Store, unmanned: Fleet) -> None:
    alone.fleet.staff("worker", 1, 60)
    heavy, light = make_job(alone, unmanned, 60, weight=3), make_job(alone, unmanned, 60)
    take_called(alone)
    given = {heavy.job_id: 0, light.job_id: 0}
    for _ in range(40):
        [newest] = alone.keyspace.client.zrange(alone.keyspace.key("leases"), -1, -1)
        alone.agents.cancel(newest, "next")
        for job_id in take_called(alone):
            given[job_id] += 1
    assert 2.3 <= given[heavy.job_id] / given[light.job_id] <= 3.7


def test_who_was_woken_comes_before_fresh_ones_and_deeper_ones_before_shallower(alone: Store, unmanned: Fleet) -> None:
    world = make_job(alone, unmanned, 0, max_running=2)
    world.spawn("waiter", teammate=False)
    world.run("waiter")
    world.spawn("low", teammate=False, parent="waiter")
    world.spawn("fresh", teammate=False)
    world.park("waiter", Condition(children=[world.ids["low"]]))
    world.run("low")
    world.end("low")
    called = alone.keyspace.client.zrange(alone.keyspace.key("ready"), 0, -1)
    assert called == [world.ids["waiter"]]
    assert alone.agents.claim(world.ids["fresh"], "worker", 60) != Refused("unknown")


def test_a_lost_message_is_sent_again_while_others_are_queued(alone: Store, unmanned: Fleet) -> None:
    world = make_job(alone, unmanned, 3)
    lost, *queued = (world.ids[f"c{i}"] for i in range(3))
    rescue = alone.leases.rescue(max_deaths=5, outbox_age_seconds=0, queued=queued)
    assert [called[0] for called in rescue.publish] == [lost]


def test_who_is_called_of_a_job_that_was_cancelled_makes_room_for_others(alone: Store, unmanned: Fleet) -> None:
    alone.fleet.staff("worker", 1, 60)
    large = make_job(alone, unmanned, 500)
    small = StoredJob(alone, unmanned)
    assert small.spec.agent_id not in alone.keyspace.client.zrange(alone.keyspace.key("ready"), 0, -1)
    effect = alone.agents.cancel(large.root, "stop")
    assert small.spec.agent_id in [called[0] for called in effect.publish]


def test_workers_that_leave_are_not_counted_on(alone: Store, unmanned: Fleet) -> None:
    alone.fleet.staff("one", 40, 60)
    alone.fleet.staff("two", 2, 60)
    alone.fleet.staff("one", 0, 60)
    make_job(alone, unmanned, 100)
    assert alone.keyspace.client.zcard(alone.keyspace.key("ready")) <= 4


@pytest.fixture
def small_fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    try:
        fleet.start_worker(2)
        yield fleet
    finally:
        fleet.close()


def test_a_small_job_ends_long_before_the_large_one_that_came_first(small_fleet: Fleet) -> None:
    children = ", ".join(f"{{name: Agent, input: {{description: part {i}, prompt: part {i}}}}}" for i in range(60))
    server = small_fleet.rehearse(
        f"""
name: large
rules:
  - when: {{prompt: '^large', turn: 0}}
    reply: {{tools: [{children}]}}
  - reply: {{text: done}}
""",
        latency_seconds=0.2,
    )
    large = small_fleet.submit("large", server)
    wait_for("the large job has its agents", lambda: large.view().agents > 50)
    small = small_fleet.submit("small", server)
    small.wait(60)
    assert not large.view().ended
    left = [agent for agent in large.agents() if agent.state != "completed"]
    assert len(left) > 20
