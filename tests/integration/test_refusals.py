"""What refusals teach the governor: one is no limit, repeated ones are; a long wait is tried; nobody starves.

Tests of swarm/capabilities/governor/learning_common.lua, swarm/cli/limits.py, swarm/store/lua/admission_common.lua.
"""

from __future__ import annotations

import random
from functools import partial

import pytest
import redis
from click.testing import Result
from typer.testing import CliRunner

from swarm.capabilities.governor.view import read_classes
from swarm.cli.app import app
from swarm.store.slots import CallEnd, Ending, Slot
from swarm.store.store import Store
from swarm.store.values import Signals
from tests.asking import CLASS, RESERVATION, Asking, pass_time, play, read_class, state_limits
from tests.fleet import Fleet
from tests.job_world import JobWorld

PLAYED = pytest.mark.parametrize("store", [redis.Redis], ids=["once"], indirect=True)
"""A minute of many agents is thousands of steps. That a repeated step changes nothing is shown by the tests of single steps."""


@PLAYED
def test_one_early_refusal_of_242_requests_costs_hardly_any_time(store: Store, unmanned: Fleet) -> None:
    store.fleet.staff("worker", 6, 3_600)
    none = play(Asking(store, unmanned, 61), 242, lambda number, at: None)
    one = play(Asking(store, unmanned, 61), 242, lambda number, at: 1.0 if number == 13 else None)
    assert (none.refused, one.refused) == (0, 1)
    assert [bucket.used for bucket in read_class(store).buckets.values()] == [None] * 3
    assert one.seconds < 1.2 * none.seconds


@PLAYED
def test_single_refusals_now_and_then_are_never_taken_for_a_limit(store: Store, unmanned: Fleet) -> None:
    store.fleet.staff("worker", 6, 3_600)
    chance = random.Random(7)
    run = play(Asking(store, unmanned, 30), 1_000, lambda number, at: 0.5 if chance.random() < 0.01 else None)
    assert run.refused > 5
    assert read_class(store).buckets["requests"].used is None
    assert run.replies / run.seconds > 12


class _Limited:
    """A server with a bucket of so many requests a minute, full at first, that tells nobody."""

    def __init__(self, requests: int) -> None:
        self.limit, self.level, self.filled = requests, float(requests), 0.0

    def refuse(self, number: int, at: float) -> float | None:
        self.level = min(self.limit, self.level + (at - self.filled) * self.limit / 60)
        self.filled = at
        self.level -= 1
        return None if self.level >= 0 else max(0.1, -self.level * 60 / self.limit)


@PLAYED
def test_a_limit_that_nobody_states_is_found_where_refusals_are_repeated(store: Store, unmanned: Fleet) -> None:
    store.fleet.staff("worker", 24, 3_600)
    run = play(Asking(store, unmanned, 60), 10_000, _Limited(120).refuse, seconds=300, reply=1.5)
    used = read_class(store).buckets["requests"].used
    assert used is not None and 80 <= used <= 180
    assert run.replies >= 0.85 * 120 * 6
    assert run.refused <= 0.18 * (run.refused + run.replies)


@PLAYED
def test_a_server_that_grants_nothing_for_a_while_teaches_no_limit(store: Store, unmanned: Fleet) -> None:
    run = play(Asking(store, unmanned, 1), 1, lambda number, at: 1.5 if number <= 20 else None)
    assert (run.refused, run.replies) == (20, 1)
    assert [bucket.used for bucket in read_class(store).buckets.values()] == [None] * 3
    assert run.seconds < 40, "by the governor's clock it waited as it was asked to, and no longer"


_EARLY_REFUSAL = """
name: early-refusal
latency_seconds: 0.05
rate_limits: {stated: false}
faults:
  - {kind: '429', times: 1, after: 12, retry_after: 1}
rules:
  - when: {prompt: '^lead', turn: 0}
    reply: {tools: [CHILDREN]}
  - {when: {prompt: '^work', turn: '0-3'}, reply: {tools: [{name: LS, input: {path: .}}]}}
  - reply: {text: done}
""".replace("CHILDREN", ", ".join(f"{{name: Agent, input: {{description: c{n}, prompt: work}}}}" for n in range(12)))


def test_a_fleet_keeps_to_no_limit_after_one_early_refusal(fleet: Fleet) -> None:
    fleet.start_worker(4)
    server = fleet.rehearse(_EARLY_REFUSAL)
    job = fleet.swarm.submit("lead", agent="general-purpose", workspace=fleet.workspace, base_url=server.url)
    assert job.wait(60).text == "done"
    (found,) = read_classes(fleet.swarm.store)
    assert (found.limited, found.replies) == (1, 2 + 12 * 5)
    assert [bucket.used for bucket in found.buckets.values()] == [None] * 3
    assert found.window is None or found.window >= 1.25 * 4 + 2, "all processes may ask again"


# -- a long hold -----------------------------------------------------------------------------------------------------


def _slots(asking: Asking, *numbers: int) -> list[bool]:
    return [isinstance(asking.ask(number), Slot) for number in numbers]


def test_a_long_hold_is_tried_by_one_request_at_a_time_at_growing_intervals(store: Store, unmanned: Fleet) -> None:
    asking = Asking(store, unmanned, 6)
    assert _slots(asking, 0, 1) == [True, True]
    asking.end(0, "limited", after=3_600.0)
    assert 3_590 < read_class(store).held_seconds <= 3_600
    assert 25 < (read_class(store).try_seconds or 0) <= 30
    asking.end(1)
    assert read_class(store).held_seconds > 3_000, "a reply to an earlier request ends no hold"
    assert _slots(asking, 0, 1, 2) == [False] * 3
    for pause in (60, 120, 240, 480, 600, 600):
        pass_time(store, (read_class(store).try_seconds or 0) + 1)
        store.rates.serve_classes()
        assert read_class(store).asking == 1 and read_class(store).try_seconds is None
        (tries,) = [number for number in range(3) if asking.holds(number)]
        asking.end(tries, "limited", after=3_600.0)
        assert pause - 5 < (read_class(store).try_seconds or 0) <= pause
        assert _slots(asking, tries) == [False]
    pass_time(store, 601)
    store.rates.serve_classes()
    (tries,) = [number for number in range(3) if asking.holds(number)]
    asking.end(tries)
    assert read_class(store).held_seconds == 0 and read_class(store).asking == 2, "the others go on at once"


def test_after_a_hold_that_nobody_has_tried_the_limits_count_again(store: Store, unmanned: Fleet) -> None:
    store.rates.apply_limits(CLASS, state_limits(60))
    asking = Asking(store, unmanned, 6)
    assert _slots(asking, 0) == [True]
    asking.end(0, "limited", after=40.0, limits=state_limits(60, left=0))
    pass_time(store, 41)
    asking.end(0, limits=state_limits(60, left=0))
    assert sum(_slots(asking, *range(6))) <= 2


def test_the_agent_that_tries_may_die_and_another_tries_later(store: Store, unmanned: Fleet) -> None:
    asking = Asking(store, unmanned, 3)
    assert _slots(asking, 0) == [True]
    asking.end(0, "limited", after=600.0)
    assert _slots(asking, 1, 2) == [False, False]
    pass_time(store, 31)
    store.rates.serve_classes()
    assert [asking.holds(1), asking.holds(2)] == [True, False]
    store.leases.rescue(max_deaths=5, outbox_age_seconds=60, batch=0, dead=[(asking.ids[1], "worker")])
    assert 55 < (read_class(store).try_seconds or 0) <= 60
    pass_time(store, 61)
    store.rates.serve_classes()
    assert asking.holds(2)


def test_a_slot_that_was_granted_before_a_hold_is_given_back_and_asked_for_again(store: Store, unmanned: Fleet) -> None:
    store.rates.apply_limits(CLASS, state_limits(60, left=0))
    asking = Asking(store, unmanned, 2)
    assert _slots(asking, 1, 0)[1] is False
    asking.park(0)
    pass_time(store, 60)
    store.rates.serve_classes()
    assert asking.state(0) == "queued"
    asking.end(1, "limited", after=600.0, limits=state_limits(60, left=50))
    assert asking.take(0).slot is None
    assert _slots(asking, 0) == [False]
    pass_time(store, 31)
    store.rates.serve_classes()
    assert asking.holds(0)


# -- nobody starves --------------------------------------------------------------------------------------------------


def _wait_longest(store: Store, world: JobWorld, rounds: int) -> dict[str, int]:
    """A slot or two go round among agents that always ask again: how many turns of others each has waited for, at most."""
    waits, longest = dict.fromkeys(world.ids, 0), dict.fromkeys(world.ids, 0)
    by_id = {agent_id: name for name, agent_id in world.ids.items()}
    slots = store.keyspace.key("class", CLASS, "slots")
    for name in world.ids:
        store.rates.ask_for_slot(world.claims[name], RESERVATION)
    for _ in range(rounds):
        pass_time(store, 1)
        store.rates.serve_classes()
        for served in [by_id[one] for one in store.keyspace.client.zrange(slots, 0, -1)]:
            for name in waits:
                waits[name] = 0 if name == served else waits[name] + 1
                longest[name] = max(longest[name], waits[name])
            world.live(served, call=CallEnd(CLASS, "ok", 100, 50, limits=state_limits(60)))
            store.rates.ask_for_slot(world.claims[served], RESERVATION)
    return longest


def test_a_lead_waits_at_most_twice_as_long_as_its_busy_members(store: Store, unmanned: Fleet) -> None:
    world = JobWorld(store, unmanned)
    for number in range(6):
        world.start(f"member-{number}", f"role-{number}")
    store.rates.apply_limits(CLASS, state_limits(60, left=0))
    longest = _wait_longest(store, world, 120)
    lead = longest.pop("root")
    assert 0 < lead <= 2 * max(longest.values())


def test_deeper_agents_go_first_but_not_for_ever(store: Store, unmanned: Fleet) -> None:
    world = JobWorld(store, unmanned, team=False)
    for number in range(6):
        world.start(f"child-{number}", teammate=False)
    store.rates.apply_limits(CLASS, state_limits(60, left=0))
    longest = _wait_longest(store, world, 120)
    root = longest.pop("root")
    assert max(longest.values()) < root <= 30


# -- a clock that is set back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["ok", "limited", "overloaded"])
def test_a_clock_that_is_set_back_stops_no_agent(store: Store, unmanned: Fleet, ending: Ending) -> None:
    asking = Asking(store, unmanned, 20)
    assert _slots(asking, *range(4)) == [True] * 4
    asking.end(0)
    pass_time(store, -7_200)
    asking.end(1, ending)
    assert read_class(store).held_seconds < 120
    for _ in range(70):
        pass_time(store, 1)
        store.rates.serve_classes()
    assert all(_slots(asking, 4, 5))
    asking.end(2)


# -- operators ---------------------------------------------------------------------------------------------------------


def test_an_operators_hold_lets_nobody_try_and_ends_when_it_is_released(store: Store, unmanned: Fleet) -> None:
    asking = Asking(store, unmanned, 3)
    assert _slots(asking, 0) == [True]
    asking.end(0)
    assert isinstance(store.rates.hold(CLASS, 3_600), Signals)
    assert _slots(asking, 0, 1) == [False, False]
    pass_time(store, 1_800)
    store.rates.serve_classes()
    assert read_class(store).asking == 0 and read_class(store).held_by == "operator"
    store.rates.release(CLASS)
    assert read_class(store).asking == 2 and read_class(store).held_by is None


def test_a_release_ends_the_servers_hold_and_forgets_what_was_learned(store: Store, unmanned: Fleet) -> None:
    store.fleet.staff("worker", 24, 3_600)
    asking = Asking(store, unmanned, 60)
    play(asking, 10_000, _Limited(60).refuse, seconds=120, reply=1.5)
    assert read_class(store).buckets["requests"].used is not None
    asking.end(0, "limited", after=600.0)
    store.rates.release(CLASS)
    found = read_class(store)
    assert found.buckets["requests"].used is None and found.held_seconds == 0 and found.window_cause == "start"


def test_a_ceiling_replaces_what_was_learned_and_bounds_what_is_stated(store: Store, unmanned: Fleet) -> None:
    asking = Asking(store, unmanned, 8)
    assert store.rates.set_ceiling("nobody/knows/it", [5, None, None]) is None
    assert _slots(asking, 0) == [True]
    asking.end(0)
    store.rates.set_ceiling(CLASS, [5, None, 9_000])
    assert _slots(asking, *range(8)) == [True] * 5 + [False] * 3
    assert [bucket.used for bucket in read_class(store).buckets.values()] == [5, None, 9_000]
    assert store.keyspace.client.ttl(store.keyspace.key("class", CLASS)) == -1, "it is not forgotten"
    asking.end(0, limits=state_limits(1_000))
    assert [bucket.used for bucket in read_class(store).buckets.values()] == [5, 9_700_000, 9_000]
    store.rates.set_ceiling(CLASS, [0, 0, 0])
    assert read_class(store).buckets["requests"].used == 970 and read_class(store).buckets["requests"].ceiling is None
    assert all(asking.holds(number) for number in range(1, 8))


def _limits(store: Store, monkeypatch: pytest.MonkeyPatch, unmanned: Fleet, *words: str) -> Result:
    monkeypatch.setenv("SWARM_REDIS_URL", unmanned.url)
    monkeypatch.setenv("SWARM_KEY_PREFIX", store.keyspace.prefix)
    return CliRunner().invoke(app, ["limits", *words])


def test_the_command_finds_a_class_by_a_part_of_its_name_and_shows_what_it_has_done(
    store: Store, unmanned: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Asking(store, unmanned, 1)
    assert _slots(asking, 0) == [True]
    asking.end(0, limits=state_limits(60))
    run = partial(_limits, store, monkeypatch, unmanned)
    assert "left of 58 a minute, 60 stated" in run().output
    assert "30 left of 30 a minute, 60 stated, 30 set by an operator" in run("set", "sonnet", "--requests", "30").output
    assert "by an operator" in run("hold", "sonnet", "90").output
    assert "held" not in run("release", CLASS).output
    assert "30 set" not in run("set", "sonnet", "--clear").output
    unknown, nothing = run("hold", "opus"), run("set", "sonnet")
    assert unknown.exit_code != 0 and CLASS in str(unknown.exception)
    assert nothing.exit_code == 2 and "--requests" in nothing.output
