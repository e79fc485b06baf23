"""Agents that go on after their end, step by step against a real Redis: who ends them, who hears them, what is left of before.

Tests of mailbox/directory.py, swarm/agent/history.py, swarm/store/agents.py.
"""

from __future__ import annotations

import secrets

import pytest

from swarm.agent.entries import Finished, Prompt
from swarm.agent.history import fold
from swarm.agent.journaled import Condition
from swarm.core.errors import AgentCancelled
from swarm.mailbox import Receiver
from swarm.store.store import Store
from swarm.store.values import Claim, Counters, OutgoingMessage, OutputBounds, Refused
from tests.fleet import Fleet
from tests.job_world import JobWorld


@pytest.fixture
def world(unmanned: Fleet, store: Store) -> JobWorld:
    """The root has a child `middle`, which has one of its own, `low`."""
    world = JobWorld(store, unmanned, team=False)
    world.start("middle", teammate=False)
    world.start("low", teammate=False, parent="middle")
    return world


def _write(world: JobWorld, name: str, body: str = "go on") -> None:
    outgoing = OutgoingMessage(
        job=world.job_id,
        sender=world.job_id,
        name="user",
        kind="message",
        body=body,
        token=secrets.token_hex(8),
    )
    world.store.mail.send(outgoing, [Receiver(world.ids[name], name, "")])


def _spend(world: JobWorld, name: str, tokens: int) -> None:
    claim, number = world.claims[name], world.lengths[name] + 1
    world.store.journals.append(claim, number, [Prompt(text="x")], counters=Counters(input=tokens, turns=1))
    world.lengths[name] += 1


def _go_on(world: JobWorld, name: str) -> None:
    """It is written to after its end, and a worker takes it."""
    _write(world, name)
    world.lengths[name] = world.store.agents.get(world.ids[name]).length
    world.run(name)


# -- below one that has ended ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["the job ends", "the job is cancelled", "its parent is cancelled"])
def test_whoever_went_on_below_one_that_has_ended_ends_with_those_above(world: JobWorld, how: str) -> None:
    world.end("low")
    world.end("middle")
    _go_on(world, "low")
    match how:
        case "the job ends":
            world.end("root")
        case "the job is cancelled":
            world.store.agents.cancel(world.root, "enough")
        case _:
            world.store.agents.cancel(world.ids["middle"], "enough")
            assert world.state("middle") == "completed"
    assert world.state("low") == "cancelled"
    assert not world.store.keyspace.client.smembers(world.store.keyspace.key("job", world.job_id, "running")) - {
        world.root
    }


def test_what_is_spent_below_one_that_has_ended_reaches_the_root_once(world: JobWorld) -> None:
    _spend(world, "low", 10)
    world.end("low")
    _spend(world, "middle", 100)
    world.end("middle")
    _go_on(world, "low")
    _spend(world, "low", 1)
    world.end("low")
    assert world.store.agents.get(world.root).below.input == 111
    _go_on(world, "middle")
    _spend(world, "middle", 1000)
    world.end("middle")
    assert world.store.agents.get(world.root).below.input == 1111
    assert world.store.jobs.get(world.job_id).sums.input == 1111


# -- the answer of the run before --------------------------------------------------------------------------------


def test_an_answer_that_is_waited_for_is_not_replaced_by_what_is_said_to_somebody_else(world: JobWorld) -> None:
    world.store.agents.finish(world.claims["low"], 1, Finished(state="completed", text="the answer"))
    _go_on(world, "low")
    low = world.ids["low"]
    assert world.store.agents.ended([low])[low].text == "the answer"
    world.store.agents.finish(world.claims["low"], 3, Finished(state="completed", text="you are welcome"))
    assert world.store.agents.ended([low])[low].text == "the answer"


def test_data_of_the_run_before_is_not_taken_for_the_next_ones(world: JobWorld) -> None:
    world.store.agents.finish(
        world.claims["root"], world.lengths["root"] + 1, Finished(state="completed", text="1", data=1)
    )
    assert world.store.jobs.get(world.job_id).data == 1
    _go_on(world, "root")
    assert not world.store.jobs.get(world.job_id).data and not world.store.agents.get(world.root).data


# -- one that never began ----------------------------------------------------------------------------------------


def test_one_that_ended_before_it_began_can_go_on(unmanned: Fleet, store: Store) -> None:
    world = JobWorld(store, unmanned, team=False, timeout_seconds=0.001)
    store.agents.hand_over(world.claims["root"], "nobody ran it")
    for _ in range(3):
        store.keyspace.client.zadd(store.keyspace.key("deadlines"), {world.job_id: 1}, xx=True)
        store.leases.rescue(max_deaths=5, outbox_age_seconds=60)
    assert world.state("root") == "timed_out"
    _write(world, "root")
    world.run("root")
    history = fold(world.root, store.journals.read(world.root))
    assert history.length == 2 and history.finished is None and history.spec is None


# -- places among the running ------------------------------------------------------------------------------------


def test_a_place_that_was_given_to_one_that_is_cancelled_goes_to_the_next(unmanned: Fleet, store: Store) -> None:
    world = JobWorld(store, unmanned, team=False, max_running=1)
    for name in ("first", "second"):
        world.spawn(name, teammate=False)
        assert store.agents.claim(world.ids[name], "worker", 60) == Refused("capped")
    world.park("root", Condition(children=[world.ids["first"], world.ids["second"]]))
    capped = store.keyspace.client.zrange(store.keyspace.key("job", world.job_id, "line"), 0, -1)
    assert len(capped) == 1
    [let_in] = {world.ids["first"], world.ids["second"]} - set(capped)
    store.agents.cancel(let_in, "not needed")
    assert store.keyspace.client.zscore(store.keyspace.key("ready"), capped[0]) is not None
    assert isinstance(store.agents.claim(capped[0], "worker", 60), Claim)


# -- what expires --------------------------------------------------------------------------------------------------


def test_an_output_expires_with_its_job_and_none_is_kept_after_the_end(world: JobWorld) -> None:
    outputs = world.store.keyspace.key("outputs", world.ids["low"])
    world.store.outputs.keep(world.claims["low"], "early", "text", OutputBounds(99, 99))
    assert world.store.keyspace.client.ttl(outputs) == -1
    world.end("root")
    assert 0 < world.store.keyspace.client.ttl(outputs) <= 60
    with pytest.raises(AgentCancelled):
        world.store.outputs.keep(world.claims["low"], "late", "text", OutputBounds(99, 99))


def test_an_agent_with_children_ends_in_a_job_that_has_kept_outputs(world: JobWorld) -> None:
    world.store.outputs.keep(world.claims["low"], "key", "text", OutputBounds(99, 99))
    world.end("middle")
    assert (world.state("middle"), world.state("low")) == ("completed", "cancelled")
