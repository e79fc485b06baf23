"""Whatever is done to a job of any size, Redis is held only for a short step at a time; and none of it can be told from one step.

Tests of mailbox/directory.py, swarm/store/agents.py, swarm/store/journals.py.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from swarm.agent.entries import (
    Assistant,
    Finished,
    Prompt,
    Started,
    ToolFinished,
)
from swarm.agent.journaled import Condition
from swarm.core.errors import AgentCancelled, ReceiverEnded
from swarm.mailbox import Receiver
from swarm.models import Usage
from swarm.store.store import Store
from swarm.store.values import DELIVERIES_AT_ONCE, Claim, NotSpawned, OutgoingMessage, Reservation, Signals
from swarm.store.values import Counters as Used
from tests.fleet import Fleet
from tests.integration.mail_world import Desk, make_person
from tests.job_world import LONGEST_STEP_SECONDS, JobWorld, open_store, processor_seconds
from tests.waiting import wait_for

SIZE = 600


@pytest.fixture
def crowd(unmanned: Fleet) -> JobWorld:
    """A job whose root has 600 parked children: `c0` to `c599`; ten of them have a running child each: `g0` to `g9`."""
    world = JobWorld(open_store(unmanned), unmanned, team=False, max_agents=10_000, max_running=10_000)
    world.store.journals.append(world.claims["root"], 1, [Started(spec=world.spec), Prompt(text="go")])
    world.lengths["root"] = 2
    make_children(world, "root", "c", SIZE)
    for i in range(10):
        world.run(f"c{i}")
        world.spawn(f"g{i}", teammate=False, parent=f"c{i}")
        world.run(f"g{i}")
    for i in range(SIZE):
        if f"c{i}" not in world.claims:
            world.run(f"c{i}")
        world.park(f"c{i}", Condition(until=time.time() + 3_600))
    return world


def make_children(world: JobWorld, parent: str, outgoing: str, many: int) -> None:
    specs = {f"{outgoing}{i}": world.child_spec(f"{outgoing}{i}", world.ids[parent]) for i in range(many)}
    world.spawn_all(world.claims[parent], world.lengths[parent] + 1, specs)
    world.lengths[parent] += 1
    world.ids |= {name: spec.agent_id for name, spec in specs.items()}
    world.lengths |= dict.fromkeys(specs, 0)


def finish_settling(store: Store, job_id: str) -> int:
    """Do what is left; returns in how many steps."""
    steps, left = 0, True
    while left:
        left, _ = store.jobs.settle(job_id)
        steps += 1
    return steps


def test_a_cancelled_crowd_ends_in_short_steps_and_completely(crowd: JobWorld) -> None:
    client = crowd.store.keyspace.client
    before = processor_seconds(client)
    effect = crowd.store.agents.cancel(crowd.root, "stop")
    ended = [record.ended for record in crowd.store.agents.of(crowd.job_id)].count(True)
    assert ended < 200, "one step ends some of them, not all"
    assert effect.rest == [crowd.job_id]
    steps = finish_settling(crowd.store, crowd.job_id)
    assert steps > 5
    assert (processor_seconds(client) - before) / (steps + 1) <= LONGEST_STEP_SECONDS
    states = Counter(record.state for record in crowd.store.agents.of(crowd.job_id))
    assert states == {"cancelled": SIZE + 11}
    assert [key for key in client.scan_iter(f"*{crowd.job_id}*") if client.ttl(key) < 0] == []
    assert crowd.store.jobs.unsettled() == []


def test_whoever_is_still_to_be_ended_can_do_nothing_any_more(crowd: JobWorld) -> None:
    store, last = crowd.store, _last_to_end(crowd)
    grandchild, parked = last["running"], last["parked"]
    claim = crowd.claims[grandchild]
    with pytest.raises(AgentCancelled):
        store.journals.append(claim, 1, [Prompt(text="on")], counters=Used(input=5))
    with pytest.raises(AgentCancelled):
        store.agents.reserve(claim, Reservation(10, 10))
    with pytest.raises(AgentCancelled):
        store.agents.finish(claim, 1, Finished(state="completed", text="done"))
    assert store.leases.renew(f"worker-{grandchild}", [claim.agent_id], 60) == [claim.agent_id]
    outgoing = OutgoingMessage(job=crowd.job_id, sender=crowd.job_id, name="user", kind="message", body="hello")
    with pytest.raises(ReceiverEnded):
        store.mail.send(outgoing, [Receiver(crowd.ids[parked], parked, "parked")])
    finish_settling(store, crowd.job_id)
    assert store.agents.get(claim.agent_id).state == "cancelled"
    assert store.jobs.get(crowd.job_id).sums.input == 0


def test_the_sums_of_a_job_are_exact_however_many_steps_its_end_takes(crowd: JobWorld) -> None:
    store = crowd.store
    for i in range(10):
        store.journals.append(crowd.claims[f"g{i}"], 1, [Prompt(text="on")], counters=Used(input=7, tools=1))
    store.agents.cancel(crowd.root, "stop")
    finish_settling(store, crowd.job_id)
    root = store.agents.get(crowd.root)
    assert (root.below.input, root.below.tools) == (70, 10)
    assert store.jobs.get(crowd.job_id).sums.input == 70


def test_what_goes_on_after_the_end_is_not_ended_with_what_was_before(crowd: JobWorld) -> None:
    store = crowd.store
    crowd.end("root")
    outgoing = OutgoingMessage(
        job=crowd.job_id, sender=crowd.job_id, name="user", kind="message", body="once more", token="t"
    )
    store.mail.send(outgoing, [Receiver(crowd.root, "root", "completed")])
    crowd.run("root")
    crowd.lengths["root"] = store.agents.get(crowd.root).length
    crowd.spawn("late", teammate=False)
    late = crowd.ids["late"]
    finish_settling(store, crowd.job_id)
    assert isinstance(store.agents.claim(late, "worker", 60), Claim)
    states = Counter(record.state for record in store.agents.of(crowd.job_id))
    assert states == {"cancelled": SIZE + 10, "running": 2}
    assert [
        key for key in store.keyspace.client.scan_iter(f"*{crowd.job_id}*") if store.keyspace.client.ttl(key) >= 0
    ] == []


def test_an_agent_has_so_many_children_at_most_and_rests_among_them(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False, max_agents=10_000)
    for first in range(0, 2_000, 100):
        make_children(world, "root", f"w{first}-", 100)
    spec = world.child_spec("one more")
    number = world.lengths["root"] + 1
    answer = world.spawn_all(world.claims["root"], number, {"one more": spec})
    assert answer == NotSpawned("children", room=0)
    client = world.store.keyspace.client
    before = processor_seconds(client)
    assert isinstance(world.rest("root"), Signals)
    assert processor_seconds(client) - before <= LONGEST_STEP_SECONDS
    last = world.ids["w1900-99"]
    world.store.agents.cancel(last, "stop")
    assert world.state("root") == "queued", "the end of any child wakes it"


def _last_to_end(crowd: JobWorld) -> dict[str, str]:
    """Cancel the job; of those whose turn has not come, one that runs and one that is parked."""
    crowd.store.agents.cancel(crowd.root, "stop")
    names = {agent_id: name for name, agent_id in crowd.ids.items()}
    left = [record for record in crowd.store.agents.of(crowd.job_id) if not record.ended]
    return {
        state: next(names[record.id] for record in left if record.state == state) for state in ("running", "parked")
    }


def test_the_sweep_goes_on_where_whoever_cancelled_has_died(fleet: Fleet) -> None:
    world = JobWorld(fleet.swarm.store, fleet, team=False, max_agents=10_000, max_running=10_000)
    make_children(world, "root", "c", 300)
    world.store.agents.cancel(world.root, "stop")
    assert world.store.jobs.unsettled() == [world.job_id]
    fleet.start_worker(1)
    wait_for("all have ended", lambda: all(record.ended for record in world.store.agents.of(world.job_id)))
    wait_for("nothing is left to do", lambda: not world.store.jobs.unsettled())


def test_a_broadcast_reaches_everybody_once_in_steps_of_bounded_size(crowd: JobWorld) -> None:
    store, root = crowd.store, replace(crowd.claims["root"], length=None)
    call = {"type": "tool_use", "id": "call-1", "name": "SendMessage", "input": {"to": "*", "message": "hello"}}
    first = Desk(store, root)
    first.journal.append([Assistant(content=[call], stop_reason="tool_use", usage=Usage(), model="model")])
    outgoing = first.messenger._prepare(call)
    assert len(outgoing.receivers) == SIZE + 10
    sent = store.mail.send_from(root, first.journal.next_number, [outgoing.part()], {})
    assert sent.count == 1
    reached = [record.unread for record in store.agents.of(crowd.job_id)].count(1)
    assert reached == DELIVERIES_AT_ONCE, "the worker dies here"
    second = Desk(store, root)
    second.messenger.send([call])
    records = [record for record in store.agents.of(crowd.job_id) if record.id != crowd.root]
    assert {record.unread for record in records} == {1}
    assert store.keyspace.client.hget(store.keyspace.key("agent", crowd.root), "tools") == "1"
    [result] = [entry for entry in store.journals.read(crowd.root) if isinstance(entry, ToolFinished)]
    assert result.text.endswith("590 more.")


def test_a_person_reaches_everybody(crowd: JobWorld) -> None:
    delivery = make_person(crowd.store, crowd.job_id).deliver("*", "hello")
    assert len(delivery.receivers) == SIZE + 11 and not delivery.left_out
