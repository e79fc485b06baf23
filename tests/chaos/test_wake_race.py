"""The wake race at every interleaving around `park`, one atomic step after the other, against a real Redis.

Every test runs twice: with a plain client, and with one that sends every script again, as a client does whose connection
broke before the answer came. No worker runs, and nothing waits: time passes by moving a timer.

Tests of swarm/agent/journaled.py, swarm/store/agents.py, swarm/store/journals.py, swarm/store/values.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import redis

from swarm.agent.entries import (
    Finished,
    Parked,
    Prompt,
    Spawned,
)
from swarm.agent.journaled import Condition
from swarm.core.errors import AgentCancelled, NotOwner
from swarm.core.records import TERMINAL_STATES
from swarm.store.store import Store
from swarm.store.values import Busy, Claim, Counters, GoOn, Granted, Refused, Reservation, Signals
from tests.fleet import Fleet
from tests.job_world import StoredJob


class Family(StoredJob):
    """A root that runs and has spawned children; its steps and theirs, by name."""

    def __init__(self, store: Store, unmanned: Fleet, children: int = 2, **limits: Any) -> None:
        super().__init__(store, unmanned, **limits)
        self.exact = type(store.keyspace.client) is redis.Redis
        """Whether answers tell what a step did: of a repeated step, the outbox alone tells."""
        self.root = self.spec.agent_id
        self.claim = self.take_claim(self.root)
        self.length = 0
        specs = {call: self.child_spec(call) for call in (f"call-{i}" for i in range(children))}
        self.children = [spec.agent_id for spec in specs.values()]
        self.claims: dict[int, Claim] = {}
        if specs:
            assert isinstance(self.spawn_all(self.claim, 1, specs), Signals)
            self.length = 1

    # -- steps ---------------------------------------------------------------------------------------------

    def start_child(self, index: int) -> None:
        claim = self.store.agents.claim(self.children[index], f"worker-{index}", 60)
        if isinstance(claim, Claim):
            self.claims[index] = claim

    def finish_child(self, index: int) -> Signals | None:
        claim = self.claims.get(index)
        if claim is None:
            return None
        try:
            self.store.journals.append(
                claim, 1, [Prompt(text="recorded")], counters=Counters(turns=1, input=10, cost=7)
            )
            return self.store.agents.finish(claim, 2, Finished(state="completed", text="done"))
        except AgentCancelled:
            return None

    def park(self, condition: Condition) -> Signals | GoOn:
        effect = self.store.agents.park(self.claim, self.length + 1, Parked(condition=condition), condition)
        self.length += isinstance(effect, Signals)
        return effect

    # -- looks ---------------------------------------------------------------------------------------------

    def state(self, agent_id: str | None = None) -> str:
        return self.store.agents.get(agent_id or self.root).state

    def in_outbox(self) -> bool:
        return self.store.keyspace.client.zscore(self.store.keyspace.key("ready"), self.root) is not None

    def check_publish(self, effect: Signals | GoOn | None, *, expected: bool) -> None:
        """The step put the root on the queue, or did not."""
        assert self.in_outbox() == expected
        if self.exact and isinstance(effect, Signals):
            assert [called[0] for called in effect.publish].count(self.root) == int(expected)

    def check_nothing_waits(self) -> None:
        """No trace of a wait is left."""
        client, key = self.store.keyspace.client, self.store.keyspace.key
        assert not client.exists(key("await", self.root))
        assert client.zscore(key("timers"), self.root) is None
        assert client.hmget(key("agent", self.root), "wait_mode", "wait_mail") == [None, None]


def interleavings(*threads: Sequence[str]) -> list[tuple[str, ...]]:
    """Every order of the steps that keeps each thread's own."""
    if not any(threads):
        return [()]
    found = []
    for index, thread in enumerate(threads):
        if thread:
            rest = [*threads[:index], thread[1:], *threads[index + 1 :]]
            found += [(thread[0], *tail) for tail in interleavings(*rest)]
    return found


def by_name(order: tuple[str, ...]) -> str:
    return " ".join(order)


# -- children against park -----------------------------------------------------------------------------------

TWO_CHILDREN = interleavings(["park"], ["start 0", "finish 0"], ["start 1", "finish 1"])


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize("order", TWO_CHILDREN, ids=by_name)
def test_the_parent_is_woken_once_whenever_its_children_end(
    store: Store, unmanned: Fleet, mode: Literal["all", "any"], order: tuple[str, ...]
) -> None:
    family = Family(store, unmanned)
    ended, state = 0, "running"
    for step in order:
        word, _, index = step.partition(" ")
        holds = ended == 2 or (mode == "any" and ended > 0)
        if word == "start":
            family.start_child(int(index))
        elif word == "park":
            effect = family.park(Condition(children=family.children, mode=mode))
            assert isinstance(effect, GoOn) == holds, "it parks exactly if there is something to wait for"
            state = "running" if holds else "parked"
        else:
            effect = family.finish_child(int(index))
            ended += 1
            now_holds = ended == 2 or mode == "any"
            wakes = state == "parked" and now_holds
            state = "queued" if wakes else state
            if state != "running":
                family.check_publish(effect if wakes else None, expected=state == "queued")
        assert family.state() == state
    family.check_nothing_waits()
    if state == "queued":
        again = store.agents.claim(family.root, "other", 60)
        assert isinstance(again, Claim) and again.generation == 2
        assert store.agents.claim(family.root, "third", 60) == Refused("running"), "a doubled wake-up runs nothing"
    record, job = store.agents.get(family.root), store.jobs.get(family.spec.job_id)
    assert record.below == Counters(turns=2, input=20, cost=14)
    assert (job.sums, job.agents) == (Counters(turns=2, input=20, cost=14), 3)
    assert len(list(store.journals.read(family.root))) == family.length


@pytest.mark.parametrize("order", interleavings(["park"], ["start 0", "finish 0"], ["cancel"]), ids=by_name)
def test_a_child_that_is_cancelled_wakes_its_parent_like_one_that_ends(
    store: Store, unmanned: Fleet, order: tuple[str, ...]
) -> None:
    family = Family(store, unmanned, children=1)
    child = family.children[0]
    for step in order:
        before = family.state()
        over = family.state(child) in TERMINAL_STATES
        match step:
            case "start 0":
                family.start_child(0)
            case "finish 0":
                family.finish_child(0)
            case "cancel":
                store.agents.cancel(child, "not needed")
            case "park":
                assert isinstance(family.park(Condition(children=[child])), GoOn) == over
        if before == "parked" and family.state(child) in TERMINAL_STATES:
            assert family.state() == "queued" and family.in_outbox()
    cancelled_first = order.index("cancel") < order.index("finish 0")
    assert family.state(child) == ("cancelled" if cancelled_first else "completed")
    ends = [entry for entry in store.journals.read(child) if isinstance(entry, Finished)]
    assert len(ends) == 1
    assert family.state() in ("queued", "running")
    family.check_nothing_waits()


@pytest.mark.parametrize("order", interleavings(["park"], ["start 0", "finish 0"], ["cancel"]), ids=by_name)
def test_a_parent_that_is_cancelled_is_never_woken(store: Store, unmanned: Fleet, order: tuple[str, ...]) -> None:
    family = Family(store, unmanned, children=1)
    for step in order:
        match step:
            case "start 0":
                family.start_child(0)
            case "finish 0":
                family.finish_child(0)
            case "cancel":
                store.agents.cancel(family.root, "enough")
            case "park" if order.index("cancel") < order.index("park"):
                with pytest.raises(AgentCancelled):
                    family.park(Condition(children=family.children))
            case "park":
                family.park(Condition(children=family.children))
        if order.index("cancel") <= order.index(step):
            assert family.state() == "cancelled" and not family.in_outbox()
    assert family.state(family.children[0]) in ("cancelled", "completed")
    assert store.agents.claim(family.root, "worker", 60) == Refused("cancelled")
    family.check_nothing_waits()
    assert not store.keyspace.client.exists(
        store.keyspace.key("leases"),
        store.keyspace.key("ready"),
        store.keyspace.key("job", family.spec.job_id, "running"),
    )


# -- timers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", interleavings(["park"], ["start 0", "finish 0"], ["time"]), ids=by_name)
def test_a_deadline_and_a_childs_end_wake_once_between_them(
    store: Store, unmanned: Fleet, order: tuple[str, ...]
) -> None:
    family = Family(store, unmanned, children=1)
    time_is_up = child_ended = False
    state = "running"
    for step in order:
        match step:
            case "start 0":
                family.start_child(0)
            case "finish 0":
                family.finish_child(0)
                child_ended = True
            case "time":
                time_is_up = True
                store.keyspace.client.zadd(store.keyspace.key("timers"), {family.root: 1}, xx=True)
                store.leases.rescue(max_deaths=5, outbox_age_seconds=float("inf"))
            case "park":
                until = time.time() + (-1 if time_is_up else 3600)
                effect = family.park(Condition(children=family.children, until=until))
                assert isinstance(effect, GoOn) == (child_ended or time_is_up)
                state = "running" if isinstance(effect, GoOn) else "parked"
        if state == "parked" and (child_ended or time_is_up):
            state = "queued"
        assert family.state() == state
    family.check_nothing_waits()
    if state == "queued":
        family.claim = family.take_claim(family.root)
    assert isinstance(family.park(Condition(children=family.children)), GoOn), (
        "the child has ended: there is nothing to wait for"
    )


# -- claims --------------------------------------------------------------------------------------------------


def test_of_two_deliveries_of_one_wake_up_one_runs(store: Store, unmanned: Fleet) -> None:
    family = Family(store, unmanned, children=1)
    first = store.agents.claim(family.children[0], "one", 60)
    assert isinstance(first, Claim)
    assert store.agents.claim(family.children[0], "two", 60) == Refused("running")
    assert store.agents.claim(family.children[0], "one", 60) == Refused("running"), "not even on the same worker"
    assert store.agents.get(family.children[0]).generation == 1


def test_only_the_claim_of_the_worker_that_died_is_ended(store: Store, unmanned: Fleet) -> None:
    family = Family(store, unmanned, children=0)
    for worker, rescued in (("another", []), ("worker", [family.root])):
        rescue = store.leases.rescue(max_deaths=5, outbox_age_seconds=0, batch=0, dead=[(family.root, worker)])
        if family.exact:
            assert list(rescue.rescued) == rescued
        assert family.state() == ("queued" if rescued else "running")
    assert store.agents.get(family.root).deaths == 1


def test_beyond_the_cap_agents_wait_and_each_leaver_lets_one_in(store: Store, unmanned: Fleet) -> None:
    family = Family(store, unmanned, max_running=1)
    family.start_child(0)
    family.start_child(1)
    assert not family.claims and family.state(family.children[0]) == "queued"
    family.park(Condition(children=family.children))
    let_in = [
        child
        for child in family.children
        if store.keyspace.client.zscore(store.keyspace.key("ready"), child) is not None
    ]
    assert len(let_in) == 1
    index = family.children.index(let_in[0])
    family.start_child(index)
    family.start_child(1 - index)
    assert set(family.claims) == {index}
    family.finish_child(index)
    family.start_child(1 - index)
    family.finish_child(1 - index)
    assert family.state() == "queued"
    family.take_claim(family.root)


# -- stale writes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A way to lose a claim."""

    name: str
    happen: Callable[[Family], Any]
    error: type[Exception] = NotOwner


def _expire(family: Family) -> None:
    family.store.keyspace.client.zadd(family.store.keyspace.key("leases"), {family.root: 1}, xx=True)
    family.store.leases.rescue(max_deaths=5, outbox_age_seconds=float("inf"))


def _reclaim(family: Family) -> None:
    _expire(family)
    family.take_claim(family.root)


def _quarantine(family: Family) -> None:
    family.store.keyspace.client.zadd(family.store.keyspace.key("leases"), {family.root: 1}, xx=True)
    family.store.leases.rescue(max_deaths=1, outbox_age_seconds=float("inf"))
    assert family.state() == "failed"


def _time_out(family: Family) -> None:
    # The limit, half of the grace, and all of it.
    for _ in range(3):
        family.store.keyspace.client.zadd(family.store.keyspace.key("deadlines"), {family.spec.job_id: 1}, xx=True)
        family.store.leases.rescue(max_deaths=5, outbox_age_seconds=float("inf"))
    assert family.state() == "timed_out"


LOSSES = [
    Loss("rescued", _expire),
    Loss("claimed by another", _reclaim),
    Loss("quarantined", _quarantine),
    Loss("timed out", _time_out),
    Loss("cancelled", lambda family: family.store.agents.cancel(family.root, "enough"), AgentCancelled),
]

WRITES: dict[str, Callable[[Family], Any]] = {
    "append": lambda f: f.store.journals.append(f.claim, f.length + 1, [Prompt(text="x")], counters=Counters(turns=1)),
    "append two": lambda f: f.store.journals.append(f.claim, f.length + 1, [Prompt(text="x"), Prompt(text="y")]),
    "reserve": lambda f: f.store.agents.reserve(f.claim, Reservation(100, 100)),
    "spawn": lambda f: f.store.agents.spawn(
        f.claim, f.length + 1, Spawned(children={"late": "agent-late"}), [f.child_spec("late", agent_id="agent-late")]
    ),
    "park": lambda f: f.park(Condition(children=f.children)),
    "finish": lambda f: f.store.agents.finish(f.claim, f.length + 1, Finished(state="completed", text="late")),
    "hand over": lambda f: f.store.agents.hand_over(f.claim, "late"),
}


def _everything(store: Store) -> dict[str, Any]:
    """All that this swarm keeps."""
    kept: dict[str, Any] = {}
    for key in store.keyspace.client.scan_iter(store.keyspace.key("*"), count=1000):
        match store.keyspace.client.type(key):
            case "hash":
                kept[key] = store.keyspace.client.hgetall(key)
            case "stream":
                kept[key] = store.keyspace.client.xrange(key)
            case "zset":
                kept[key] = store.keyspace.client.zrange(key, 0, -1, withscores=True)
            case "set":
                kept[key] = store.keyspace.client.smembers(key)
    return kept


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_write_after_the_claim_was_lost_is_refused_and_changes_nothing(
    store: Store, unmanned: Fleet, loss: Loss, write: str
) -> None:
    family = Family(store, unmanned, max_tokens=1_000_000, timeout_seconds=3600)
    loss.happen(family)
    before = _everything(store)
    if write == "hand over" and loss.name == "rescued":
        WRITES[write](family)  # It is on the queue, which is all that was wanted.
    else:
        with pytest.raises(loss.error):
            WRITES[write](family)
    assert _everything(store) == before


@pytest.mark.parametrize("write", ["append", "reserve", "spawn", "hand over"])
@pytest.mark.parametrize("left", ["park", "finish"])
def test_a_segment_that_has_left_can_write_no_more(store: Store, unmanned: Fleet, left: str, write: str) -> None:
    family = Family(store, unmanned, max_tokens=1_000_000)
    WRITES[left](family)
    if left == "finish":
        family.length += 1
    before = _everything(store)
    with pytest.raises(NotOwner):
        WRITES[write](family)
    assert _everything(store) == before


# -- repeats -------------------------------------------------------------------------------------------------


def test_every_step_counts_once_however_often_it_is_sent(store: Store, unmanned: Fleet) -> None:
    """One whole life; with the repeating client each of its steps is sent twice."""
    family = Family(store, unmanned, children=1, max_tokens=1000)
    client, key = store.keyspace.client, store.keyspace.key
    store.jobs.submit(family.spec, catalogue="{}", retention_seconds=60)
    assert client.hget(key("job", family.spec.job_id), "agents") == "2"
    assert isinstance(store.agents.reserve(family.claim, Reservation(400, 0)), Granted)
    counters = Counters(turns=1, input=300, cost=5)
    store.journals.append(family.claim, 2, [Prompt(text="reply")], counters=counters, settle=True)
    job = store.jobs.get(family.spec.job_id)
    assert (job.sums, job.reserved_tokens) == (Counters(turns=1, input=300, cost=5), 0)
    family.length = 2
    family.start_child(0)
    assert family.park(Condition(children=family.children)) is not None
    family.finish_child(0)
    claim = family.take_claim(family.root)
    store.agents.hand_over(claim, "a deploy")
    claim = family.take_claim(family.root)
    assert claim.generation == 3
    store.agents.finish(claim, 4, Finished(state="completed", text="all"))
    assert [entry.kind for entry in store.journals.read(family.root)] == ["spawned", "prompt", "parked", "finished"]
    job = store.jobs.get(family.spec.job_id)
    assert (job.state, job.sums.turns, job.sums.input, job.agents) == ("completed", 2, 310, 2)
    assert store.agents.get(family.root).below.input == 10
    events = [fields["kind"] for _, fields in client.xrange(key("events", family.spec.job_id))]
    assert events.count("spawned") == events.count("parked") == events.count("woken") == events.count("job_ended") == 1
    assert events.count("running") == 4 and events.count("ended") == 2
    for name in ("leases", "ready", "timers"):
        assert not client.exists(key(name))


def test_what_an_ended_agent_had_set_aside_is_given_back(store: Store, unmanned: Fleet) -> None:
    family = Family(store, unmanned, children=1, max_tokens=1000)
    family.start_child(0)
    assert isinstance(store.agents.reserve(family.claims[0], Reservation(800, 0)), Granted)
    assert isinstance(store.agents.reserve(family.claim, Reservation(800, 0)), Busy)
    store.agents.cancel(family.children[0], "not needed")
    assert isinstance(store.agents.reserve(family.claim, Reservation(800, 0)), Granted)
