"""The live model of a job: patches fold to the snapshot, whatever happens; a real Redis, real workers.

Tests of swarm/client/messages.py, swarm/runtime/token_stream.py, swarm/store/events.py, swarm/streaming/live/reader.py,
swarm/streaming/live/rows.py, swarm/streaming/live/state.py, swarm/store/streams.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.agent.entries import Parked, Prompt
from swarm.agent.journaled import Condition
from swarm.client.messages import Messages
from swarm.core.errors import SwarmError, UnknownAgent
from swarm.store.questions import Ask
from swarm.store.values import Counters, Signals
from swarm.streaming.live.reader import LiveReader
from swarm.streaming.live.state import LiveSnapshot, fold
from tests.fleet import Fleet
from tests.job_world import JobWorld, open_store

ACTS = (
    "start",
    "spawn",
    "run",
    "work",
    "wait",
    "ask",
    "answer",
    "write",
    "read",
    "end",
    "cancel",
    "hand_over",
    "person",
)


def _act(world: JobWorld, act: str, name: str) -> None:
    """One thing that may happen to the job, if it can happen now."""
    if world.state(name) == "queued" and act not in ("cancel", "write"):
        world.run(name)
    if act in ("start", "spawn"):
        fresh, teammate = f"n{len(world.ids)}", len(world.ids) % 2 == 0
        world.spawn(fresh, parent=name, teammate=teammate)
        if act == "start":
            world.run(fresh)
        return
    claim, person = world.claims[name], Messages(world.store, world.job_id, lambda effect: None)
    number = world.lengths[name] + 1
    match act:
        case "work":
            counters = Counters(turns=1, input=10, output=5, cache_read=100, cost=7)
            world.store.journals.append(claim, number, [Prompt(text="x")], activity="working", counters=counters)
            world.lengths[name] += 1
        case "wait":
            world.park(name, Condition(mail="any"))
        case "ask":
            question = f"question-{world.ids[name]}-{number}"
            ask = Ask(kind="question", tool="AskUser", title="what?", detail="what?", seconds=60).model_dump(
                exclude={"to"}
            )
            condition = Condition(question=question)
            answer = world.store.agents.park(claim, number, Parked(condition=condition), condition, ask=ask)
            world.lengths[name] += isinstance(answer, Signals)
        case "answer":
            for question in world.store.questions.open(world.job_id):
                world.store.questions.answer(question.id, "so", by="user")
        case "write" | "person":
            person.send("root" if act == "person" else world.ids[name], "hello")
        case "read":
            world.read(name)
        case "end":
            world.end(name)
        case "cancel" if name != "root":
            world.store.agents.cancel(world.ids[name], "enough")
        case "hand_over":
            world.store.agents.hand_over(claim, "because")


def _catch_up(reader: LiveReader, snapshot: LiveSnapshot) -> LiveSnapshot:
    events = reader.events(snapshot.job_id, snapshot.events)
    return fold(snapshot, reader.patch(snapshot.job_id, snapshot, events))


@settings(max_examples=40)
@given(data=st.data())
def test_patches_folded_in_are_the_snapshot_of_that_moment(unmanned: Fleet, data: Any) -> None:
    world = JobWorld(open_store(unmanned), unmanned, max_depth=3)
    reader = LiveReader(world.store)
    known = reader.snapshot(world.job_id)
    for _ in range(data.draw(st.integers(1, 30))):
        act, name = data.draw(st.sampled_from(ACTS)), data.draw(st.sampled_from(list(world.ids)))
        try:
            _act(world, act, name)
        except (SwarmError, KeyError):
            # It cannot happen now: the agent has ended, is parked, or was never claimed.
            pass
        if data.draw(st.booleans()):
            known = _catch_up(reader, known)
    known, now = _catch_up(reader, known), reader.snapshot(world.job_id)
    assert known == now
    assert list(known.agents) == list(now.agents), "and in the same order"


def test_a_patch_that_comes_twice_changes_nothing(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    reader = LiveReader(world.store)
    before = reader.snapshot(world.job_id)
    world.start("a", teammate=False)
    patch = reader.patch(world.job_id, before, reader.events(world.job_id, before.events))
    once = fold(before, patch)
    assert fold(once, patch) == once == reader.snapshot(world.job_id)
    assert list(patch.agents) == [world.ids["a"]], "its parent has not changed"


def test_a_large_snapshot_is_read_in_parts(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    for name in "abcd":
        world.spawn(name, teammate=False)
    reader = LiveReader(world.store)
    first, whole = reader.snapshot(world.job_id, 2), reader.snapshot(world.job_id)
    assert (list(first.agents), first.left, whole.left) == ([world.root, world.ids["a"]], 3, 0)
    second, left = reader.part(world.job_id, 2, 2)
    third, none_left = reader.part(world.job_id, 4, 2)
    assert (len(second), left, len(third), none_left) == (2, 1, 1, 0)
    assert list({**first.agents, **second, **third}.items()) == list(whole.agents.items())


def test_those_at_work_are_read_without_events(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    reader = LiveReader(world.store)
    before = reader.snapshot(world.job_id)
    world.store.events.show_activity(world.claims["root"], "thinking")
    patch = reader.patch(world.job_id, before, [], at_work=True)
    assert patch.agents[world.root]["activity"] == "thinking" and patch.events == before.events


def test_a_job_that_is_not_there_is_an_error(unmanned: Fleet) -> None:
    reader = LiveReader(open_store(unmanned))
    with pytest.raises(UnknownAgent, match="job-none"):
        reader.snapshot("job-none")


def test_time_in_the_queue_is_told_apart_from_work(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, team=False)
    world.spawn("a", teammate=False)
    reader = LiveReader(world.store)
    fresh = reader.agents([world.ids["a"]])[world.ids["a"]]
    assert (fresh["state"], fresh["queued_seconds"], fresh["started_at"]) == ("queued", 0.0, None)
    world.run("a")
    taken = reader.agents([world.ids["a"]])[world.ids["a"]]
    assert taken["queued_seconds"] == pytest.approx(taken["started_at"] - fresh["queued_at"], abs=0.001)
    world.store.agents.hand_over(world.claims["a"], "because")
    world.run("a")
    again = reader.agents([world.ids["a"]])[world.ids["a"]]
    assert again["queued_seconds"] > taken["queued_seconds"]


def test_a_real_job_that_is_followed_ends_as_its_snapshot_is(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=2 fanout=3 steps=2", at_work.rehearse())
    reader, seen = LiveReader(at_work.swarm.store), 0
    now = reader.snapshot(job.id)
    for event in job.follow(after=now.events, idle_seconds=0.2):
        seen += 1
        now = fold(now, reader.patch(job.id, now, [] if event is None else [event], at_work=event is None))
    assert now == replace(reader.snapshot(job.id), events=now.events)
    assert len(now.agents) == 13 and now.job["state"] == "completed"
    assert seen > 13
    reckoned = sum(row["reckoned_usd"] for row in now.agents.values())
    assert reckoned == pytest.approx(now.job["reckoned_usd"]) != 0
