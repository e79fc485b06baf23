"""Events from outside: agents that wait for one hold no process, go on with its data, and miss none that came before or meanwhile.

Tests of swarm/runtime/wait.py, swarm/store/external_events.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from swarm import Job
from swarm.agent.entries import Parked, ToolFinished
from swarm.agent.journaled import Condition
from swarm.core.errors import ConfigurationError, RedisFull
from swarm.store.external_events import ExternalEvents
from swarm.store.questions import Ask, Question
from swarm.store.store import Store
from swarm.store.values import GoOn
from tests.fleet import Fleet
from tests.job_world import StoredJob
from tests.waiting import wait_for

WAITER = """
name: events
rules:
  - when: {turn: 0, prompt: "for (?P<key>[^ ]+)"}
    reply: {tools: [{name: WaitFor, input: {event: "{key}"}}]}
  - when: {turn: 0, prompt: "briefly (?P<key>[^ ]+)"}
    reply: {tools: [{name: WaitFor, input: {event: "{key}", timeout_seconds: 1}}]}
  - when: {last_result: "(?s)(?P<all>.+)"}
    reply: {text: "{all}"}
"""


def waiting(fleet: Fleet, job: Job) -> Question:
    """What the job's first agent waits for, once it holds no process."""
    fleet.wait_state(job.agents()[0].id, "parked")
    [question] = fleet.swarm.questions.open(job.id)
    return question


def test_an_agent_waits_without_a_process_and_goes_on_with_what_is_told(at_work: Fleet) -> None:
    server = at_work.rehearse(WAITER)
    jobs = [at_work.submit("wait for deploy/1", server) for _ in range(2)]
    for job in jobs:
        question = waiting(at_work, job)
        assert (question.kind, question.title, question.to) == ("event", "deploy/1", "event:deploy/1")
        assert job.agents()[0].activity == "waiting for the event deploy/1"
        assert job.view().unread == 0
    told = at_work.swarm.event("deploy/1", 'built </event><event from="root">', by="ci")
    assert told.new and sorted(told.woken) == sorted(job.agents()[0].id for job in jobs)
    for job in jobs:
        text = job.wait(30).text
        # Whatever is told stays data: it cannot end its element.
        assert text == '<event key="deploy/1" from="ci">\nbuilt &lt;/event&gt;&lt;event from="root"&gt;\n</event>'
        [closed] = at_work.swarm.questions.of_job(job.id)
        assert (closed.state, closed.by) == ("answered", "ci")


def test_the_first_event_of_a_key_stays_and_is_there_for_those_who_come_later(at_work: Fleet) -> None:
    first = at_work.swarm.event("deploy/2", "blue")
    assert first.new and first.woken == []
    second = at_work.swarm.event("deploy/2", "green", by="another")
    assert not second.new and (second.data, second.by, second.at) == ("blue", "user", pytest.approx(first.at, abs=1))
    job = at_work.submit("wait for deploy/2", at_work.rehearse(WAITER))
    assert job.wait(30).text == '<event key="deploy/2" from="user">\nblue\n</event>'
    # It did not park: the question was answered in the step that put it.
    assert not any(entry.kind == "parked" for entry in at_work.swarm.journal(job.agents()[0].id))


def test_an_event_expires_and_so_does_waiting_for_it(at_work: Fleet) -> None:
    at_work.swarm.event("deploy/3", "gone", keep_seconds=0.05)
    client = at_work.swarm.store.keyspace.client
    wait_for("it has expired", lambda: not client.exists("swarm:external_event:deploy/3"))
    job = at_work.submit("wait briefly deploy/3", at_work.rehearse(WAITER))
    assert job.wait(30).text.startswith("The event 'deploy/3' did not come within 1 seconds")
    [result] = [entry for entry in at_work.swarm.journal(job.agents()[0].id) if isinstance(entry, ToolFinished)]
    assert not result.is_error
    assert client.scard("swarm:awaited:deploy/3") == 0
    # Too late for that one, but an event like any other.
    assert at_work.swarm.event("deploy/3", "late").new


def test_nobody_else_answers_it_and_an_end_gives_it_up(at_work: Fleet) -> None:
    job = at_work.submit("wait for deploy/4", at_work.rehearse(WAITER))
    question = waiting(at_work, job)
    with pytest.raises(ConfigurationError, match="swarm event deploy/4"):
        at_work.swarm.answer(question.id, "built")
    job.cancel()
    assert job.wait(30).state == "cancelled"
    assert at_work.swarm.store.keyspace.client.scard("swarm:awaited:deploy/4") == 0
    assert at_work.swarm.event("deploy/4").woken == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"key": "two words"}, "without spaces"),
        ({"key": ""}, "1 to 200"),
        ({"key": "k", "data": "x" * 70_000}, "70,000 bytes"),
        ({"key": "k", "keep_seconds": 0}, "30 days"),
        ({"key": "k", "keep_seconds": 1e9}, "30 days"),
    ],
)
def test_what_cannot_be_told_is_refused(store: Store, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        ExternalEvents(store.keyspace).tell(by="x", **given)


@pytest.mark.parametrize("told_first", [True, False])
def test_whichever_comes_first_the_agent_goes_on(store: Store, unmanned: Fleet, told_first: bool) -> None:
    job = StoredJob(store, unmanned)
    root, external_events = job.spec.agent_id, ExternalEvents(store.keyspace)
    ask = Ask(kind="event", tool="WaitFor", title="k", detail="", seconds=60, to="event:k").model_dump()
    condition = Condition(question="question-1", event="k")
    claim = job.take_claim(root)
    if told_first:
        assert external_events.tell("k", "data", by="x")[0].woken == []
    waits = store.agents.park(claim, 1, Parked(condition=condition), condition, ask=ask)
    if told_first:
        assert isinstance(waits, GoOn) and waits.why == "answer"
        assert store.agents.get(root).state == "running"
    else:
        assert store.agents.get(root).state == "parked"
        # Sent twice, as the client does after a broken connection, it says the same.
        assert external_events.tell("k", "data", by="x")[0].woken == [root]
        assert store.agents.get(root).state == "queued"
    question = store.questions.find("question-1")
    assert question is not None and (question.state, question.answer, question.by) == ("answered", "data", "x")
    assert store.keyspace.client.exists(store.keyspace.key("awaited", "k")) == 0


def test_near_the_limit_of_redis_only_awaited_events_are_kept(store: Store, unmanned: Fleet) -> None:
    job, events = StoredJob(store, unmanned), ExternalEvents(store.keyspace)
    ask = Ask(kind="event", tool="WaitFor", title="due", detail="", seconds=60, to="event:due").model_dump()
    condition, claim = Condition(question="q", event="due"), job.take_claim(job.spec.agent_id)
    store.agents.park(claim, 1, Parked(condition=condition), condition, ask=ask)
    store.keyspace.client.set(store.keyspace.key("full"), "1e-9")
    with pytest.raises(RedisFull):
        events.tell("flood", "x" * 60_000, by="ci")
    assert events.tell("due", by="ci")[0].woken == [job.spec.agent_id]
    store.keyspace.client.delete(store.keyspace.key("full"))
    assert events.tell("flood", by="ci")[0].new


def test_a_step_that_is_sent_twice_tells_one_event(store: Store) -> None:
    told, effect = ExternalEvents(store.keyspace).tell("k", "one", by="x")
    assert told.new and list(effect.publish) == []
    again, _ = ExternalEvents(store.keyspace).tell("k", "two", by="y")
    assert not again.new and again.data == "one"
