"""The governor's steps: who may ask the model, what it learns, who waits and is woken, and that nothing leaks.

Tests of swarm/capabilities/governor/view.py, swarm/models/limits.py, swarm/store/rates.py, swarm/store/slots.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from swarm.agent.entries import Parked
from swarm.agent.journaled import Condition
from swarm.capabilities.governor.view import read_classes
from swarm.models.limits import RateLimits
from swarm.store.slots import InLine, Slot, SlotReservation
from swarm.store.store import Store
from swarm.store.values import GoOn, Signals
from tests.asking import CLASS, Asking, pass_time, read_class, state_limits
from tests.fleet import Fleet
from tests.governed import Governed, Load, now
from tests.waiting import wait_for


def test_a_few_go_first_and_the_others_once_the_server_has_said_what_there_is(store: Store, unmanned: Fleet) -> None:
    asking = Asking(store, unmanned, 7)
    answers = [asking.ask(number) for number in range(7)]
    assert [isinstance(answer, Slot) for answer in answers] == [True] * 4 + [False] * 3
    assert isinstance(answers[0], Slot) and not answers[0].known
    assert isinstance(asking.park(4), Signals) and asking.state(4) == "parked"
    store.rates.apply_limits(CLASS, state_limits(1_000))
    assert asking.state(4) == "queued" and asking.take(4).slot is not None
    assert asking.park(5) == GoOn("slot"), "it was served before it could park"
    assert read_class(store).knowledge == "told" and read_class(store).asking == 7


def test_no_more_ask_than_the_limit_has_room_for_and_who_waits_is_woken_when_it_has_filled(
    store: Store, unmanned: Fleet
) -> None:
    store.rates.apply_limits(CLASS, state_limits(60, left=3))
    asking = Asking(store, unmanned, 6)
    answers = [asking.ask(number) for number in range(6)]
    granted = [answer for answer in answers if isinstance(answer, Slot)]
    assert 3 <= len(granted) <= 4, "one that has to wait for a moment only does so with its slot"
    assert isinstance(asking.park(5), Signals)
    assert read_class(store).waiting == {asking.world.job_id: 6 - len(granted)}

    def served() -> bool:
        store.rates.serve_classes()
        return asking.state(5) == "queued"

    wait_for("there is room", served, 10)


def test_a_refusal_that_one_meets_holds_all_back_until_its_time(store: Store, unmanned: Fleet) -> None:
    store.rates.apply_limits(CLASS, state_limits(600))
    asking = Asking(store, unmanned, 3)
    assert isinstance(asking.ask(0), Slot)
    asking.end(0, "limited", after=30.0, limits=state_limits(600, left=0))
    assert isinstance(asking.ask(1), InLine)
    assert 25 < read_class(store).held_seconds <= 30 and read_class(store).limited == 1
    _, due = store.rates.serve_classes()
    assert due is not None and 25 < due <= 30, "nobody looks before"


def test_a_stated_limit_is_valid_until_another_is_stated(store: Store, unmanned: Fleet) -> None:
    store.rates.apply_limits(CLASS, state_limits(100))
    asking = Asking(store, unmanned, 1)
    for limits in (RateLimits(), RateLimits(input=1_000_000)):
        assert isinstance(asking.ask(0), Slot)
        asking.end(0, limits=limits)
    assert [bucket.used for bucket in read_class(store).buckets.values()] == [97, 970_000, 9_700_000]


@pytest.mark.parametrize("leaves", ["dies", "is cancelled", "is handed over", "waits for something else"])
def test_whoever_gives_its_process_back_or_dies_leaves_nothing_behind(
    store: Store, unmanned: Fleet, leaves: str
) -> None:
    store.rates.apply_limits(CLASS, state_limits(60, left=2))
    asking = Asking(store, unmanned, 4)
    answers = [asking.ask(number) for number in range(4)]
    assert isinstance(answers[0], Slot) and isinstance(answers[3], InLine)
    for number in (0, 3):
        agent_id = asking.ids[number]
        claim = asking.claims[agent_id]
        match leaves:
            case "dies":
                store.leases.rescue(max_deaths=5, outbox_age_seconds=60, batch=0, dead=[(agent_id, "worker")])
            case "is cancelled":
                store.agents.cancel(agent_id, "not needed")
            case "is handed over":
                store.agents.hand_over(claim, "a deploy")
            case _:
                condition = Condition(until=store.now() + 60)
                store.agents.park(claim, 1, Parked(condition=condition), condition)
    held = set(store.keyspace.client.zrange(store.keyspace.key("class", CLASS, "slots"), 0, -1))
    assert asking.ids[0] not in held and asking.ids[3] not in held
    assert sum(read_class(store).waiting.values()) + len(held) == 2, "of the two others each holds a slot or is in line"


def test_where_no_limits_are_stated_all_may_ask_until_one_is_refused(store: Store, unmanned: Fleet) -> None:
    asking = Asking(store, unmanned, 40)
    for number in range(20):
        assert isinstance(asking.ask(number), Slot)
        asking.end(number)
    assert read_class(store).knowledge == "blind" and read_class(store).buckets["requests"].used is None
    assert [type(asking.ask(number)) for number in range(20, 36)] == [Slot] * 16
    asking.end(20, "limited")
    assert read_class(store).buckets["requests"].used is None, "one refusal shows no limit"
    assert (read_class(store).window, read_class(store).window_cause) == (8, "refusal")
    assert isinstance(asking.ask(36), InLine)


def test_jobs_are_served_by_their_weight_and_deeper_agents_first(store: Store, unmanned: Fleet) -> None:
    store.rates.apply_limits(CLASS, state_limits(60, left=0))
    jobs = [Asking(store, unmanned, 24, weight=weight) for weight in (1, 1, 2)]
    for number in range(24):
        for asking in jobs:
            asking.ask(number)
            asking.park(number)
    # The buckets fill.
    pass_time(store, 60)
    store.rates.serve_classes()
    served = Counter(n for n, asking in enumerate(jobs) for number in range(24) if asking.state(number) == "queued")
    assert sum(served.values()) >= 50
    assert served[2] == 24 and abs(served[0] - served[1]) <= 1


def test_random_overloads_change_nothing_and_a_storm_narrows_the_window_which_opens_again(
    store: Store, unmanned: Fleet
) -> None:
    store.rates.apply_limits(CLASS, state_limits(100_000))
    asking = Asking(store, unmanned, 40)
    for number in range(40):
        assert isinstance(asking.ask(number), Slot)
    for number in range(20):
        asking.end(number, "overloaded" if number in (5, 15) else "ok")
    assert read_class(store).window is None
    for number in range(20, 40):
        asking.end(number, "overloaded")
    narrow = read_class(store).window
    assert narrow is not None and narrow < 20


def test_of_those_whose_requests_begin_alike_one_asks_and_the_next_if_that_one_dies(
    store: Store, unmanned: Fleet
) -> None:
    store.rates.apply_limits(CLASS, state_limits(1_000))
    asking = Asking(store, unmanned, 4)
    reservation = SlotReservation(CLASS, 100, cold=5_000, prefix="p")
    assert [type(asking.ask(number, reservation)) for number in range(4)] == [Slot, InLine, InLine, InLine]
    for number in (1, 2, 3):
        assert isinstance(asking.park(number), Signals)
    dead = [(asking.ids[0], "worker")]
    store.leases.rescue(max_deaths=5, outbox_age_seconds=60, batch=0, dead=dead)
    assert sorted(asking.state(number) for number in (1, 2, 3)) == ["parked", "parked", "queued"]
    left, _ = store.rates.let_others_begin("p", begun=True)
    assert not left and [asking.state(number) for number in (1, 2, 3)] == ["queued"] * 3
    assert isinstance(Asking(store, unmanned, 1).ask(0, reservation), Slot), "it is in the cache now"


# -- a fleet -------------------------------------------------------------------------------------------------------


def test_jobs_under_one_limit_are_all_done_with_hardly_a_refusal_though_a_worker_dies(fleet: Fleet) -> None:
    load = Load(
        jobs=3,
        siblings=4,
        weights=(1, 1, 2),
        requests=60,
        input_tokens=1_000_000,
        output_tokens=1_000_000,
        reply_seconds=0.2,
        overloaded=0.0,
        turns=5,
    )
    dying = fleet.start_worker(3)
    governed = Governed(fleet, load)
    began = now()
    governed.submit()
    store = fleet.swarm.store
    (name,) = wait_for("somebody waits", lambda: [one.name for one in read_classes(store) if one.waiting], 30)
    other = fleet.begin_worker(3)
    dying.kill()
    other.wait_ready()
    for job in governed.jobs:
        assert job.wait(60).text == "ALL"
    told = governed.read(began, now())
    assert told.failed == 0 and sum(told.turns.values()) == 3 * (2 + 4 * 6)
    assert told.wasted <= 0.03
    assert set(told.cold.values()) <= {1}, "of those who begin alike one has written what the others read"
    assert store.keyspace.client.exists(*(store.keyspace.key("class", name, part) for part in ("slots", "turns"))) == 0
    assert not store.keyspace.client.keys(store.keyspace.key("class", name, "line", "*"))
