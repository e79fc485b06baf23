"""Of agents whose requests begin alike one begins first, and the others read from the prompt cache what it wrote.

Tests of swarm/runtime/share.py, swarm/store/slots.py.
"""

from __future__ import annotations

import time

from swarm.agent.entries import Spawned
from swarm.runtime.share import GATE_SECONDS
from swarm.store.slots import SlotReservation
from swarm.store.store import Store
from swarm.store.values import Claim, Signals
from tests.fleet import Fleet
from tests.job_world import StoredJob
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

LONG = "x" * 9_000
"""A prompt of a definition that is worth caching, whatever the model."""


def _fork_out(fleet: Fleet, first_latency: float, *, children: int = 6) -> RehearsalServer:
    calls = ", ".join(
        f'{{name: Agent, input: {{description: child {n}, prompt: "child {n}", subagent_type: writer}}}}'
        for n in range(children)
    )
    folder = fleet.workspace / ".swarm" / "agents"
    folder.mkdir(parents=True)
    (folder / "writer.md").write_text(f"---\nname: writer\ndescription: Writes.\n---\n{LONG}\n")
    return fleet.rehearse(
        f"""
name: siblings
rules:
  - {{when: {{turn: 0, prompt: COORDINATE}}, reply: {{tools: [{calls}]}}}}
  - {{when: {{prompt: COORDINATE}}, reply: {{text: ALL}}}}
  - {{reply: {{text: ONE, latency_seconds: {first_latency}}}}}
"""
    )


def _answered(server: RehearsalServer) -> list[float]:
    """When children were answered, the earliest first."""
    return sorted(request.time for request in server.requests if request.definition == "writer")


def test_the_first_of_several_children_goes_first_and_the_others_read_what_it_wrote(fleet: Fleet) -> None:
    server = _fork_out(fleet, 0.4)
    fleet.start_worker(8)
    job = fleet.submit("COORDINATE", server)
    assert job.wait(30).text == "ALL"
    written = [agent.usage.cache_creation_input_tokens for agent in job.agents()[1:]]
    assert max(written) > 2_000
    assert sum(tokens > 2_000 for tokens in written) == 1, "one has paid to write the prefix"
    woken = [event.fields["why"] for event in job.follow() if event is not None and event.kind == "woken"]
    assert sorted(woken) == ["children"] + ["prefix"] * 5, "by the reply's begin, not by a timer"


def test_those_who_wait_hold_no_process_and_go_on_after_two_seconds_whatever_the_first_does(fleet: Fleet) -> None:
    server = _fork_out(fleet, 6.0)
    fleet.start_worker(8)
    job = fleet.submit("COORDINATE", server)
    wait_for("the first asks", lambda: server.stats()["in_flight"] == 1 and len(job.agents()) == 7)
    states = sorted(agent.state for agent in job.agents()[1:])
    assert states == ["parked"] * 5 + ["running"]
    wait_for("the others ask", lambda: server.stats()["in_flight"] == 6, 5)
    assert not _answered(server), "the first has not replied"
    job.cancel()


def test_nothing_is_lost_if_the_first_dies(fleet: Fleet) -> None:
    server = _fork_out(fleet, 1.0)
    worker = fleet.start_worker(4)
    job = fleet.submit("COORDINATE", server)
    wait_for("the first asks", lambda: server.stats()["in_flight"] == 1 and len(job.agents()) == 7)
    worker.kill()
    fleet.start_worker(4)
    view = job.wait(40)
    assert (view.state, view.text) == ("completed", "ALL")
    assert [agent.state for agent in job.agents()] == ["completed"] * 7


# -- the steps ---------------------------------------------------------------------------------------------------------


def _spawn(world: StoredJob, names: dict[str, str]) -> tuple[Claim, dict[str, str]]:
    """Have the root make these children, by call, whose requests begin with what is named; returns their ids."""
    claim = world.take_claim(world.spec.agent_id)
    specs = {call: world.child_spec(call) for call in names}
    ids = {call: spec.agent_id for call, spec in specs.items()}
    entry = Spawned(children=ids)
    prefixes = {ids[call]: name for call, name in names.items() if name}
    made = world.store.agents.spawn(
        claim, 1, entry, list(specs.values()), beside={one: {"prefix": name} for one, name in prefixes.items()}
    )
    assert isinstance(made, Signals)
    return claim, ids


def _states(store: Store, ids: dict[str, str]) -> dict[str, str]:
    return {call: store.agents.get(agent_id).state for call, agent_id in ids.items()}


def test_one_of_each_prefix_is_queued_and_who_shares_none_does_not_wait(store: Store, unmanned: Fleet) -> None:
    world = StoredJob(store, unmanned)
    _, ids = _spawn(world, {"a1": "A", "a2": "A", "b1": "B", "free": ""})
    assert _states(store, ids) == {"a1": "queued", "a2": "parked", "b1": "queued", "free": "queued"}
    assert world.take_claim(ids["a1"]).opens == "A"
    assert world.take_claim(ids["free"]).opens == ""
    left, _ = store.rates.let_others_begin("A", begun=True)
    assert not left
    assert _states(store, ids)["a2"] == "queued"


def test_what_the_cache_holds_is_waited_for_by_nobody(store: Store, unmanned: Fleet) -> None:
    store.rates.let_others_begin("warm", begun=True)
    world = StoredJob(store, unmanned)
    _, ids = _spawn(world, {"one": "warm", "two": "warm"})
    assert set(_states(store, ids).values()) == {"queued"}
    assert world.take_claim(ids["one"]).opens == ""


def test_nobody_waits_for_a_first_whose_requests_begin_otherwise_than_was_thought(
    store: Store, unmanned: Fleet
) -> None:
    world = StoredJob(store, unmanned)
    _, ids = _spawn(world, {"one": "E", "two": "E", "three": "E"})
    store.rates.ask_for_slot(
        world.take_claim(ids["one"]), SlotReservation("anthropic/1234/sonnet-5-5", 100, cold=5_000, prefix="F")
    )
    assert sorted(_states(store, {call: ids[call] for call in ("two", "three")}).values()) == ["parked", "queued"]
    second = "two" if store.agents.get(ids["two"]).state == "queued" else "three"
    store.rates.ask_for_slot(
        world.take_claim(ids[second]), SlotReservation("anthropic/1234/sonnet-5-5", 100, cold=5_000, prefix="F")
    )
    assert "parked" not in _states(store, ids).values()


def test_a_first_that_says_nothing_is_waited_for_by_a_timer_only(store: Store, unmanned: Fleet) -> None:
    world = StoredJob(store, unmanned)
    _, ids = _spawn(world, {"one": "C", "two": "C"})
    until = store.keyspace.client.zscore(store.keyspace.key("timers"), ids["two"])
    assert until is not None and 0 < until - store.now() <= GATE_SECONDS
    store.keyspace.client.zadd(store.keyspace.key("timers"), {ids["two"]: store.now()})
    store.leases.rescue(max_deaths=3, outbox_age_seconds=60)
    assert _states(store, ids)["two"] == "queued"


def test_one_that_waits_can_be_cancelled_and_many_go_on_in_short_steps(store: Store, unmanned: Fleet) -> None:
    world = StoredJob(store, unmanned)
    names = {f"c{n}": "D" for n in range(100)}
    _, ids = _spawn(world, names)
    store.agents.cancel(ids["c99"], "not needed")
    left, _ = store.rates.let_others_begin("D", begun=True)
    assert left, "not all of them in one step"
    began = time.monotonic()
    while left and time.monotonic() - began < 10:
        left, _ = store.rates.let_others_begin("D", begun=True)
    states = list(_states(store, ids).values())
    assert (states.count("queued"), states.count("cancelled")) == (99, 1)
