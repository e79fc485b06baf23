"""The task board at the level of its atomic steps, against a real Redis; no worker runs.

Every test of a single step runs twice: with a plain client, and with one that sends each script again.

Tests of swarm/capabilities/team/board.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.agent.journaled import Condition
from swarm.capabilities.team.board import MAX_TASKS, MAX_TEXT_BYTES, Board, NothingOpen
from swarm.core.errors import BoardRefused
from swarm.mailbox import render_mail
from swarm.store.store import Store
from swarm.store.values import GoOn
from tests.fleet import Fleet
from tests.job_world import LONGEST_STEP_SECONDS, JobWorld, open_store, processor_seconds


@pytest.fixture
def world(unmanned: Fleet, store: Store) -> JobWorld:
    return JobWorld(store, unmanned)


# -- adding and listing --------------------------------------------------------------------------------------


def test_tasks_are_numbered_from_one_and_know_what_they_wait_for(world: JobWorld) -> None:
    first = world.add("  design\nthe API ", description="all of it", role="Design ")
    second = world.add("build it", blocked_by=[first])
    assert (first, second) == (1, 2)
    one, two = world.board.tasks()
    assert (one.subject, one.role, one.state, one.by_name) == ("design the API", "design", "pending", "root")
    assert (two.blocked_by, two.waits_for, two.role) == ([1], [1], None)
    assert world.board.texts([1, 2])[1].description == "all of it"
    events = [
        fields for _, fields in world.store.keyspace.client.xrange(world.store.keyspace.key("events", world.job_id))
    ]
    assert [e["task"] for e in events if e["kind"] == "board" and e["change"] == "added"] == ["1", "2"]


def test_adding_with_the_same_cause_again_makes_no_second_task(world: JobWorld) -> None:
    assert world.board.add(world.root, "c", "one")[0] == 1
    assert world.board.add(world.root, "c", "one")[0] == 1
    assert len(world.board.tasks()) == 1


def test_what_exceeds_its_limit_is_refused_and_nothing_is_added(world: JobWorld) -> None:
    for subject, description, role in (
        ("x" * 201, "", None),
        (" \n ", "", None),
        ("x", "y" * (MAX_TEXT_BYTES + 1), None),
        ("x", "", "r" * 65),
    ):
        with pytest.raises(BoardRefused):
            world.add(subject, description=description, role=role)
    with pytest.raises(BoardRefused, match="there is no task 7: the board is empty"):
        world.add("x", blocked_by=[7])
    assert world.board.tasks() == []


def test_a_full_board_takes_no_more_tasks(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned)
    for n in range(MAX_TASKS):
        world.add(f"task {n}")
    with pytest.raises(BoardRefused, match="the board is full: a job has at most 1000 tasks"):
        world.add("one too many")
    assert world.take("root") == 1


def test_a_board_without_room_takes_no_more_text_and_its_tasks_can_be_completed(world: JobWorld) -> None:
    small, text = Board(world.store.keyspace, world.job_id, most_mib=1), "x" * MAX_TEXT_BYTES
    client, key = world.store.keyspace.client, world.store.keyspace.key

    def add() -> int:
        return small.add(world.root, world.cause(), "task", text)[0]

    with pytest.raises(
        BoardRefused, match="the board would be longer than 1 MiB; shorten descriptions, and put long texts"
    ):
        for _ in range(MAX_TASKS):
            last = add()
    assert 120 <= last <= 128
    with pytest.raises(BoardRefused, match="longer than 1 MiB"):
        while True:
            small.update(world.root, world.cause(), 1, note=text[:4_000])
    with pytest.raises(BoardRefused, match="longer than 1 MiB"):
        small.add(world.root, world.cause(), "task", blocked_by=range(1, last))
    for number in (2, 4):
        small.update(world.root, world.cause(), number, description="short")
    assert small.claim(world.root, world.cause(), 3)[0] == 3
    small.complete(world.root, world.cause(), 3, text)
    assert add() == last + 1, "the shorter descriptions made room"
    records = client.hvals(key("job", world.job_id, "board")) + client.hvals(key("job", world.job_id, "board", "text"))
    assert int(client.hget(key("job", world.job_id), "board_bytes")) == sum(map(len, records))


def test_an_agent_that_has_ended_and_one_of_another_job_can_do_nothing(unmanned: Fleet, world: JobWorld) -> None:
    world.add("x")
    world.start("ada")
    world.end("ada")
    stranger = JobWorld(world.store, unmanned)
    for agent in (world.ids["ada"], stranger.root, "agent-0000000000000000"):
        with pytest.raises(BoardRefused, match="only a live agent of the job"):
            world.board.claim(agent, world.cause())


# -- claiming ------------------------------------------------------------------------------------------------


def test_what_is_blocked_owned_completed_or_for_another_role_cannot_be_claimed(world: JobWorld) -> None:
    world.start("ada", "design")
    world.start("ben", "tests")
    first = world.add("design", role="design")
    second = world.add("build", blocked_by=[first])
    with pytest.raises(BoardRefused, match="task 1 is for the role 'design'; the caller has the role 'tests'"):
        world.take("ben", first)
    with pytest.raises(BoardRefused, match="task 1 is for the role 'design'; the caller has no role"):
        world.take("root", first)
    with pytest.raises(BoardRefused, match="task 2 is blocked until task 1 is completed"):
        world.take("ben", second)
    with pytest.raises(NothingOpen, match="1 open for other roles, 0 in progress, 1 blocked, 0 completed"):
        world.take("ben")
    assert world.take("ada") == first and world.take("ada", first) == first
    with pytest.raises(BoardRefused, match="task 1 belongs to ada"):
        world.take("ben", first)
    assert world.complete("ada", first) == [second]
    with pytest.raises(BoardRefused, match="task 1 is completed already"):
        world.take("ada", first)
    assert world.take("ben") == second
    with pytest.raises(BoardRefused, match="there is no task 3: the board has tasks 1 to 2"):
        world.take("ben", 3)


def test_twenty_threads_claim_one_task_and_exactly_one_wins(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned)
    names = [f"a{n}" for n in range(20)]
    for name in names:
        world.start(name)
    world.add("the only one")
    together, won, lost = threading.Barrier(20), [], []

    def claim(name: str) -> None:
        together.wait()
        try:
            world.board.claim(world.ids[name], f"claim-{name}")
            won.append(name)
        except BoardRefused:
            lost.append(name)

    threads = [threading.Thread(target=claim, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(won) == 1 and len(lost) == 19
    assert world.task(1).owner_name == won[0]


def test_twenty_threads_share_out_a_hundred_tasks_without_a_double(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned)
    names = [f"a{n}" for n in range(20)]
    for name in names:
        world.start(name)
    for n in range(100):
        world.add(f"task {n}")
    taken: dict[str, list[int]] = {name: [] for name in names}

    def work(name: str) -> None:
        for n in range(200):
            try:
                number, _ = world.board.claim(world.ids[name], f"{name}-{n}")
            except NothingOpen:
                return
            taken[name].append(number)
            world.board.complete(world.ids[name], f"{name}-{n}-done", number, "done")

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(number for numbers in taken.values() for number in numbers) == list(range(1, 101))
    assert all(task.state == "completed" for task in world.board.tasks())


def test_claiming_the_next_one_with_the_same_cause_again_is_the_same_task(world: JobWorld) -> None:
    world.start("ada")
    world.add("one")
    world.add("two")
    assert [world.board.claim(world.ids["ada"], "c")[0] for _ in range(3)] == [1, 1, 1]
    assert world.task(2).state == "pending"


# -- going back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["completed", "cancelled", "quarantined", "lead ended"])
def test_the_tasks_of_an_owner_that_ends_go_back_at_once(world: JobWorld, how: str) -> None:
    world.start("ada")
    world.start("ben")
    for n in range(3):
        world.add(f"task {n}")
    world.take("ada")
    world.complete("ada", 1)
    world.take("ada")
    world.take("ben")
    match how:
        case "completed":
            world.end("ada")
        case "cancelled":
            world.store.agents.cancel(world.ids["ada"], "enough")
        case "quarantined":
            world.store.keyspace.client.zadd(world.store.keyspace.key("leases"), {world.ids["ada"]: 1})
            world.store.leases.rescue(max_deaths=1, outbox_age_seconds=float("inf"))
            assert world.state("ada") == "failed"
        case "lead ended":
            world.end("root")
    states = [task.state for task in world.board.tasks()]
    assert states == ["completed", "pending", "pending" if how == "lead ended" else "in_progress"]
    assert world.task(2).owner is None and world.task(1).owner_name == "ada"
    if how != "lead ended":
        assert world.take("ben") == 2


def test_a_worker_that_dies_takes_no_task_from_its_agent(world: JobWorld) -> None:
    world.start("ada")
    world.add("x")
    world.take("ada")
    world.store.keyspace.client.zadd(world.store.keyspace.key("leases"), {world.ids["ada"]: 1})
    world.store.leases.rescue(max_deaths=5, outbox_age_seconds=float("inf"))
    assert world.state("ada") == "queued"
    assert world.task(1).owner_name == "ada"
    world.run("ada")
    world.complete("ada", 1)


# -- changing ------------------------------------------------------------------------------------------------


def test_owner_lead_and_author_may_change_a_task_and_others_may_add_notes(world: JobWorld) -> None:
    world.start("ada")
    world.start("ben")
    world.add("old")
    world.board.update(world.root, world.cause(), 1, subject="new", description="d")
    with pytest.raises(BoardRefused, match="can be changed by the lead, by root who added it, and by its owner"):
        world.board.update(world.ids["ben"], world.cause(), 1, subject="mine")
    world.board.update(world.ids["ben"], world.cause(), 1, note="seen")
    world.take("ada", 1)
    world.board.update(world.ids["ada"], world.cause(), 1, role="r", note="mine")
    assert (world.task(1).subject, world.task(1).role) == ("new", "r")
    assert world.board.texts([1])[1].notes == "ben: seen\nada: mine"
    with pytest.raises(BoardRefused, match="in progress"):
        world.board.update(world.ids["ada"], world.cause(), 1, blocked_by=[])
    world.complete("ada", 1)
    with pytest.raises(BoardRefused, match="only notes"):
        world.board.update(world.root, world.cause(), 1, subject="late")


def test_a_task_is_given_and_put_back_by_its_owner_and_the_lead_only(world: JobWorld) -> None:
    for name, role in (("ada", "r"), ("ben", None), ("cleo", "r")):
        world.start(name, role)
    world.add("x", role="r")
    with pytest.raises(BoardRefused, match="by the lead and by its owner"):
        world.board.give(world.ids["ben"], world.cause(), 1, world.ids["ben"])
    with pytest.raises(BoardRefused, match="task 1 is for the role 'r'; ben has no role"):
        world.board.give(world.root, world.cause(), 1, world.ids["ben"])
    world.board.give(world.root, world.cause(), 1, world.ids["ada"])
    assert world.task(1).owner_name == "ada"
    assert "root gave you task 1" in world.notes("ada")[0]
    world.board.give(world.ids["ada"], world.cause(), 1, world.ids["cleo"])
    assert world.task(1).owner_name == "cleo"
    with pytest.raises(BoardRefused, match="by its owner, cleo"):
        world.board.release(world.ids["ada"], world.cause(), 1)
    world.board.release(world.ids["cleo"], world.cause(), 1)
    assert world.task(1).state == "pending" and world.take("ada") == 1
    world.end("cleo")
    with pytest.raises(BoardRefused, match="cleo has ended"):
        world.board.give(world.root, world.cause(), 1, world.ids["cleo"])


def test_only_the_owner_and_the_lead_complete_a_task_and_only_once(world: JobWorld) -> None:
    world.start("ada")
    world.start("ben")
    world.add("x")
    world.add("y", blocked_by=[1])
    with pytest.raises(BoardRefused, match="has no owner yet: claim it first"):
        world.complete("ben", 1)
    world.take("ada", 1)
    with pytest.raises(BoardRefused, match="task 1 belongs to ada"):
        world.complete("ben", 1)
    assert world.board.complete(world.ids["ada"], "c", 1, "the result")[0] == [2]
    assert world.board.complete(world.ids["ada"], "c", 1, "the result")[0] == [2]
    with pytest.raises(BoardRefused, match="completed already, by ada"):
        world.complete("root", 1)
    assert world.board.texts([1])[1].result == "the result"
    assert world.complete("root", 2) == [] and world.task(2).owner_name == "root"


# -- circles -------------------------------------------------------------------------------------------------


def test_a_circle_is_refused_and_named(world: JobWorld) -> None:
    world.add("a")
    world.add("b", blocked_by=[1])
    world.add("c", blocked_by=[2])
    with pytest.raises(BoardRefused, match="a circle: task 1 waits for 3, which waits for 2, which waits for 1"):
        world.board.update(world.root, world.cause(), 1, blocked_by=[3])
    with pytest.raises(BoardRefused, match="task 1 cannot wait for itself"):
        world.board.update(world.root, world.cause(), 1, blocked_by=[1])
    assert world.task(1).blocked_by == []


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 6), st.lists(st.integers(1, 6), max_size=3)), max_size=12))
def test_whatever_is_changed_the_board_never_holds_a_circle(changes: list[tuple[int, list[int]]]) -> None:
    world = _shared_world()
    for n in range(6):
        world.add(f"task {n}")
    base = len(world.board.tasks()) - 6
    accepted: dict[int, set[int]] = {n: set() for n in range(1, 7)}
    for number, blockers in changes:
        proposed = {**accepted, number: set(blockers)}
        try:
            world.board.update(
                world.root, world.cause(), base + number, blocked_by=[base + blocker for blocker in blockers]
            )
            assert not _has_circle(proposed)
            accepted = proposed
        except BoardRefused:
            assert _has_circle(proposed)
    stored = {t.number - base: {n - base for n in t.blocked_by} for t in world.board.tasks() if t.number > base}
    assert stored == accepted


def test_of_changes_at_the_same_time_none_makes_a_circle(unmanned: Fleet) -> None:
    worlds = [JobWorld(open_store(unmanned), unmanned)]
    # A second client of the same job.
    other = Board(
        Store(redis.Redis.from_url(unmanned.url, decode_responses=True), worlds[0].store.keyspace.prefix).keyspace,
        worlds[0].job_id,
    )
    board, root, refused = worlds[0].board, worlds[0].root, []
    for n in range(60):
        worlds[0].add(f"task {n}")
    barrier = threading.Barrier(2)

    def chain(board: Board, step: int) -> None:
        for n in range(2, 60):
            barrier.wait(10)
            try:
                board.update(root, f"{step} {n}", n, blocked_by=[n + step])
            except BoardRefused as error:
                refused.append(str(error))

    threads = [threading.Thread(target=chain, args=given) for given in ((board, 1), (other, -1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not _has_circle({task.number: set(task.blocked_by) for task in board.tasks()})
    assert all("a circle" in text for text in refused)


def _has_circle(graph: dict[int, set[int]]) -> bool:
    left = {node: set(blockers) for node, blockers in graph.items()}
    while free := [node for node, blockers in left.items() if not blockers]:
        for node in free:
            del left[node]
        for blockers in left.values():
            blockers.difference_update(free)
    return bool(left)


_worlds: list[JobWorld] = []


@pytest.fixture(scope="module", autouse=True)
def _world_for_examples(unmanned: Fleet) -> Iterator[None]:
    _worlds.append(JobWorld(open_store(unmanned), unmanned))
    yield
    _worlds.clear()


def _shared_world() -> JobWorld:
    return _worlds[0]


# -- waiting -------------------------------------------------------------------------------------------------


def test_completing_wakes_whoever_waits_for_all_or_for_any(world: JobWorld) -> None:
    for name in ("ada", "all", "any"):
        world.start(name)
    for n in range(3):
        world.add(f"task {n}")
    assert not isinstance(world.park("all", Condition(tasks=["1", "2"], mail="talk")), GoOn)
    assert not isinstance(world.park("any", Condition(tasks=["1", "2", "3"], mode="any")), GoOn)
    for number in (3, 1, 2):
        world.take("ada", number)
    world.complete("ada", 3)
    assert (world.state("all"), world.state("any")) == ("parked", "queued")
    world.complete("ada", 1)
    assert world.state("all") == "parked"
    world.complete("ada", 2)
    assert world.state("all") == "queued"
    for name in ("all", "any"):
        assert (
            world.store.keyspace.client.hget(world.store.keyspace.key("agent", world.ids[name]), "wait_tasks") is None
        )


def test_what_holds_already_is_not_waited_for(world: JobWorld) -> None:
    world.start("ada")
    world.add("x")
    world.add("y")
    world.take("ada", 1)
    world.complete("ada", 1)
    assert world.park("root", Condition(tasks=["1", "2"], mode="any")) == GoOn("tasks")
    assert world.park("root", Condition(tasks=["1"])) == GoOn("tasks")
    assert not isinstance(world.park("root", Condition(tasks=["1", "2"])), GoOn)
    world.take("ada", 2)
    world.complete("ada", 2)
    assert world.state("root") == "queued"


def test_waiting_for_tasks_ends_with_its_time_and_a_later_completion_wakes_nobody(world: JobWorld) -> None:
    world.start("ada")
    world.add("x")
    until = world.store.now() + 1000
    world.park("root", Condition(tasks=["1"], until=until))
    world.store.keyspace.client.zadd(world.store.keyspace.key("timers"), {world.root: 1})
    world.store.leases.rescue(max_deaths=5, outbox_age_seconds=float("inf"))
    assert world.state("root") == "queued"
    world.take("ada", 1)
    effect = world.board.complete(world.ids["ada"], world.cause(), 1, "done")[1]
    assert list(effect.publish) == []


# -- offers --------------------------------------------------------------------------------------------------


def test_a_new_task_is_offered_to_one_idle_teammate_that_it_fits(world: JobWorld) -> None:
    for name, role in (("ada", "design"), ("ben", "tests"), ("cleo", "tests")):
        world.start(name, role)
        world.rest(name)
    assert all(world.is_idle(name) for name in ("ada", "ben", "cleo"))
    world.add("test <it>", role="tests")
    assert [world.state(name) for name in ("ada", "ben", "cleo")] == ["parked", "queued", "parked"]
    [note] = world.notes("ben")
    assert "Task 1 of the board is free and fits you: test <it>" in note
    world.add("test that", role="tests")
    assert world.state("cleo") == "queued", "ben is awake, so the next one is asked"
    world.add("for anybody")
    assert world.state("ada") == "queued"
    assert [len(world.notes(name)) for name in ("ada", "ben", "cleo")] == [1, 1, 1]


def test_what_a_completion_unblocks_is_offered_too(world: JobWorld) -> None:
    world.start("ada")
    world.start("ben")
    world.add("x")
    world.add("y", blocked_by=[1])
    world.take("ada", 1)
    world.rest("ben")
    assert world.is_idle("ben")
    world.complete("ada", 1)
    assert world.state("ben") == "queued" and "Task 2" in world.notes("ben")[0]


def test_who_would_go_idle_is_offered_what_is_open_instead_and_each_task_once(world: JobWorld) -> None:
    world.start("ada")
    world.add("x")
    world.add("y")
    for number in (1, 2):
        assert world.rest("ada") == GoOn("mail")
        world.read("ada")
        assert f"Task {number} " in world.notes("ada")[-1]
    assert not isinstance(world.rest("ada"), GoOn)
    assert world.is_idle("ada") and len(world.notes("ada")) == 2


def test_an_offer_that_is_not_taken_goes_to_the_next(world: JobWorld) -> None:
    for name in ("ada", "ben", "cleo"):
        world.start(name)
        world.rest(name)
    world.add("x")
    assert world.state("ada") == "queued" and world.is_idle("ben")
    world.wake_and_read("ada")
    world.rest("ada")
    assert world.is_idle("ada") and world.state("ben") == "queued"
    world.store.agents.cancel(world.ids["ben"], "enough")
    assert world.state("cleo") == "queued"
    world.wake_and_read("cleo")
    world.rest("cleo")
    assert world.is_idle("ada") and world.is_idle("cleo"), "everybody was asked once"
    assert [len(world.notes(name)) for name in ("ada", "ben", "cleo")] == [1, 1, 1]


def test_a_task_that_came_back_is_offered_again_but_not_to_who_gave_it_back(world: JobWorld) -> None:
    for name in ("ada", "ben"):
        world.start(name)
    world.add("x")
    world.take("ada", 1)
    world.rest("ben")
    world.board.release(world.ids["ada"], world.cause(), 1)
    assert world.state("ben") == "queued"
    assert not isinstance(world.rest("ada"), GoOn) and world.is_idle("ada")
    world.wake_and_read("ben")
    world.take("ben", 1)
    world.store.agents.cancel(world.ids["ben"], "enough")
    assert world.state("ada") == "queued" and world.task(1).state == "pending"


def test_an_idle_notice_names_what_was_claimed_and_not_completed(world: JobWorld) -> None:
    world.start("ada")
    world.add("x")
    world.take("ada", 1)
    world.rest("ada")
    [notice] = world.store.mail.read(world.root)
    assert "<reason>its claimed work is not complete: task 1</reason>" in render_mail([notice])
    assert world.task(1).owner_name == "ada"


# -- with the job --------------------------------------------------------------------------------------------


def test_everything_of_a_job_expires_with_it(world: JobWorld) -> None:
    world.start("ada", "r")
    world.start("ben")
    world.rest("ben")
    world.add("x", role="r")
    world.add("y", description="d")
    world.add("z")
    world.take("ada", 1)
    world.pad.write(world.root, world.cause(), "plan/a.md", "text")
    world.end("root")
    prefix = world.store.keyspace.key("job", world.job_id)
    kept = list(world.store.keyspace.client.scan_iter(f"{prefix}*", count=1000))
    assert {f"{prefix}:board", f"{prefix}:page:plan/a.md", f"{prefix}:answers", f"{prefix}:team"} <= set(kept)
    assert [key for key in kept if world.store.keyspace.client.ttl(key) < 0] == []


# -- any size ------------------------------------------------------------------------------------------------


def test_a_step_on_a_board_that_is_full_and_dense_takes_no_longer_than_on_a_small_one(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned)
    client = world.store.keyspace.client
    for number in range(1, 401):
        world.add(f"task {number}", blocked_by=list(range(1, number)))
    client.config_set("slowlog-log-slower-than", 0)
    client.slowlog_reset()
    world.add("one more", blocked_by=list(range(1, 401)))
    for number in (1, 2, 3):
        world.take("root", number)
        assert world.complete("root", number) == [number + 1]
    with pytest.raises(BoardRefused, match="that would make a circle: task 4 waits for 401, which waits for 4"):
        world.board.update(world.root, world.cause(), 4, blocked_by=[401])
    world.board.update(world.root, world.cause(), 401, blocked_by=[])
    world.board.update(world.root, world.cause(), 4, blocked_by=[401])
    taken = sorted(one["duration"] / 1e6 for one in client.slowlog_get(100) if one["command"].startswith(b"FCALL "))
    client.config_set("slowlog-log-slower-than", 10_000)
    assert taken[len(taken) // 2] <= LONGEST_STEP_SECONDS


def test_a_task_that_many_wait_for_opens_them_in_a_short_step_beside_many_idle_teammates(unmanned: Fleet) -> None:
    world = JobWorld(open_store(unmanned), unmanned, max_agents=1_000)
    client = world.store.keyspace.client
    for mate in range(150):
        world.start(f"m{mate}", role="tester")
        world.rest(f"m{mate}")
    world.start("writer", role="writer")
    world.rest("writer")
    world.add("first")
    for number in range(2, 602):
        world.add(f"task {number}", role="writer" if number == 300 else "nobody", blocked_by=[1])
    world.take("root", 1)
    client.config_resetstat()
    before = processor_seconds(client)
    assert len(world.complete("root", 1)) == 600
    used, steps = processor_seconds(client) - before, client.info("commandstats")["cmdstat_fcall"]["calls"]
    assert used / steps <= LONGEST_STEP_SECONDS, "600 tasks for 151 teammates: by the product it is a second"
    assert world.state("writer") == "queued" and world.is_idle("m1")
