"""The archive: ended jobs leave Redis whole, every reader finds them, and no crash loses one.

Tests of swarm/store/archive.py, swarm/store/lua/archive.lua, swarm/store/lua/archive_common.lua, swarm/cli/archive.py, swarm/cli/ended.py,
swarm/tasks/housekeeping.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from swarm import Job, Settings, Swarm
from swarm.agent.entries import Parked, Prompt
from swarm.agent.journaled import Condition
from swarm.cli.app import app
from swarm.cli.doctor import check_archive
from swarm.client.acts import ACTS
from swarm.client.messages import Messages
from swarm.client.operations import Invocation
from swarm.client.reads import READS
from swarm.core.errors import (
    ConfigurationError,
    JobOpen,
    ObjectMissing,
    ObjectsAway,
    QuestionClosed,
    RedisFull,
    UnknownAgent,
)
from swarm.core.settings import load_settings
from swarm.mailbox import USER
from swarm.objects.folder import FolderObjects
from swarm.objects.port import Content
from swarm.replay.past import read_past, write_lines
from swarm.store.forgetting import Forgetting
from swarm.store.objects import JobObjects
from swarm.store.store import Store
from swarm.store.usage import StoredBytes
from swarm.store.values import OutputBounds
from swarm.streaming.live.reader import LiveReader
from swarm.tasks.housekeeping import ObjectsCare
from tests.fleet import Fleet
from tests.job_world import JobWorld, StoredJob, open_store
from tests.repeating import Repeating


class Objects(FolderObjects):
    """A folder that fails or dies on request."""

    failure: BaseException | None = None

    def _write(self, owner: str, digest: str, content: Content) -> None:
        if self.failure is not None:
            raise self.failure
        super()._write(owner, digest, content)


LARGE = "x" * 70_000
"""An output that is an object."""


class Killed(BaseException):
    """The process died here."""


@pytest.fixture
def store(unmanned: Fleet) -> Store:
    """A swarm of the test's own, whose client sends every step twice."""
    return open_store(unmanned, Repeating)


@pytest.fixture
def objects(store: Store, tmp_path: Path) -> Objects:
    found = Objects(tmp_path / "objects")
    store.open_objects = lambda: found
    return found


def end(store: Store, job: StoredJob) -> None:
    store.agents.cancel(job.spec.agent_id, "enough", by=(USER, 0))
    while store.jobs.settle(job.job_id)[0]:
        pass


def lived(store: Store, fleet: Fleet) -> JobWorld:
    """An ended job that has some of everything."""
    world = JobWorld(store, fleet)
    for name in ("ada", "bob"):
        world.start(name, teammate=False)
    first = world.add("look", by="root", description="at it")
    world.add("then", by="root", blocked_by=[first])
    world.complete("ada", world.take("ada", first))
    world.pad.write(world.root, world.cause(), "plan", "é" * 100)
    Messages(store, world.job_id, lambda signals: None).send("ada", "hello")
    for name, text in {"small": "x", "call": "long\0" * 1_000, "large": LARGE}.items():
        store.outputs.keep(world.claims["ada"], name, text, OutputBounds(100_000, 100_000))
    world.read("ada")
    store.journals.append(world.claims["ada"], world.lengths["ada"] + 1, [Prompt(text="recorded")] * 600)
    store.jobs.count_search(world.job_id)
    world.end("bob")
    end(store, world)
    return world


def content(store: Store) -> dict[str, Any]:
    """All keys of the swarm except those about the archive itself."""
    client, found = store.keyspace.client, {}
    for key in sorted(client.scan_iter(store.keyspace.key("*"), count=10_000)):
        read = {
            "hash": lambda key: client.hgetall(key),
            "set": lambda key: client.smembers(key),
            "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            "list": lambda key: client.lrange(key, 0, -1),
            "string": lambda key: client.get(key),
            "stream": lambda key: client.xrange(key),
        }[client.type(key)]
        found[key] = read(key)
    about = ("archivable", "archived", "holders", "freeable", "ends")
    return {key: value for key, value in found.items() if key.split(":")[1] not in (*about, "sent")}


def exported(store: Store, job_id: str) -> list[Any]:
    lines: list[str] = []
    write_lines(read_past(store, job_id), lines.append)
    return list(map(json.loads, lines))


def test_an_archived_job_leaves_a_row_and_comes_back_as_it_was(store: Store, unmanned: Fleet, objects: Objects) -> None:
    world = lived(store, unmanned)
    other = StoredJob(store, unmanned)
    job_id, client, key = world.job_id, store.keyspace.client, store.keyspace.key
    before, past = content(store), exported(store, job_id)
    assert client.hget(key("job", job_id), "object_bytes") == "70000"
    left = {
        name: client.ttl(name) for name in before if job_id in name or any(one in name for one in world.ids.values())
    }
    assert store.archive.take_in(job_id) and store.archive.take_in(job_id)
    rest = [name for name in content(store) if job_id in name or any(one in name for one in world.ids.values())]
    assert rest == [key("job", job_id)]
    [row] = store.jobs.views([job_id])
    assert row.archived and row.ended and row.title == "root" and row.agents == 3 and row.text == ""
    assert [view.id for view in store.jobs.find(9, state="cancelled")] == [job_id]
    assert sorted(store.archive.agent_ids()) == sorted(world.ids.values())
    # The first to read an agent of it brings all of it back.
    assert store.agents.get(world.ids["ada"]).name == "ada"
    assert content(store) == before and exported(store, job_id) == past
    assert {name: client.ttl(name) for name in left} == pytest.approx(left, abs=30)
    assert store.archive.agent_ids() == [] and not store.jobs.get(job_id).archived
    # Unchanged, it is the same object.
    store.archive.take_in(job_id)
    assert len(list((objects._folder / job_id).iterdir())) == 2
    with pytest.raises(UnknownAgent):
        store.archive.take_in("job-0")
    assert not store.archive.take_in(other.job_id)


def test_usage_counts_an_archived_jobs_objects_and_its_closed_question_is_found(
    store: Store, unmanned: Fleet, objects: Objects
) -> None:
    world = JobWorld(store, unmanned)
    world.start("ada", teammate=False)
    store.outputs.keep(world.claims["ada"], "large", LARGE, OutputBounds(100_000, 100_000))
    ask = {"kind": "question", "tool": "AskUserQuestion", "title": "which?", "detail": "which?", "seconds": 60.0}
    condition = Condition(question="question-1")
    number = world.lengths["root"] + 1
    store.agents.park(world.claims["root"], number, Parked(condition=condition), condition, ask=ask)
    store.questions.answer("question-1", "both", by="me")
    end(store, world)
    swarm = Swarm(unmanned.settings)
    swarm.store = store
    [usage] = [one for one in READS if one.name == "get_usage"]

    def measure(**given: str) -> StoredBytes:
        found = usage.run(Invocation(swarm, "me"), usage.takes.model_validate(given))
        assert isinstance(found, StoredBytes)
        return found

    held, question = measure(job=world.job_id).held, store.questions.find("question-1")
    assert held["objects"] == 70_000 and held["journals"] > 0 and question is not None
    store.archive.take_in(world.job_id)
    [archived] = [file for file in (objects._folder / world.job_id).rglob("*") if file.stat().st_size < 60_000]
    for found in (measure(job=world.job_id), measure()):
        assert found.held["objects"] == 70_000 + archived.stat().st_size
        assert (found.held["journals"], found.held["outputs"], found.held["mail"]) == (0, 0, 0)
    [row] = measure().jobs or []
    assert row.id == world.job_id and 2 * row.total == sum(each for _, each in row if isinstance(each, int))
    assert store.keyspace.client.exists(store.keyspace.key("question", "question-1")) == 0
    assert store.questions.find("question-1") == question, "it brings its job back"
    store.archive.take_in(world.job_id)
    with pytest.raises(QuestionClosed):
        store.questions.answer("question-1", "neither", by="me")
    store.archive.take_in(world.job_id)
    Forgetting(store.keyspace).forget(world.job_id)
    assert store.keyspace.client.exists(store.keyspace.key("archived")) == 0
    swarm.close()


def test_every_reader_recalls_a_job_and_who_writes_to_it_continues_it(
    store: Store, unmanned: Fleet, objects: Objects
) -> None:
    world = lived(store, unmanned)
    with_swarm = Swarm(unmanned.settings)
    with_swarm.store = store
    job, root = Job(with_swarm, world.job_id), world.root
    call = Invocation(with_swarm, "me")
    rows = {one.name: one for one in READS}

    def ask(name: str, **given: Any) -> Any:
        return rows[name].run(call, rows[name].takes.model_validate(given))

    readers = {
        "view": job.view,
        "agents": job.agents,
        "events": lambda: list(job.follow(idle_seconds=0.01))[:5],
        "inbox": job.inbox,
        "journal": lambda: with_swarm.journal(root),
        "mailbox": lambda: with_swarm.mailbox(world.ids["ada"]).messages,
        "page": lambda: LiveReader(store).snapshot(world.job_id),
        "export": lambda: exported(store, world.job_id),
        "board": job.board,
        "pad": job.pad,
        "get_job": lambda: ask("get_job", job=world.job_id),
        "list_agents": lambda: ask("list_agents", job=world.job_id),
        "follow_job": lambda: ask("follow_job", job=world.job_id),
        "get_agent": lambda: ask("get_agent", agent=root),
        "get_transcript": lambda: ask("get_transcript", agent=root),
        "read_messages": lambda: ask("read_messages", job=world.job_id),
    }
    said = {name: read() for name, read in readers.items()}
    for name, read in readers.items():
        assert store.archive.take_in(world.job_id)
        assert read() == said[name], name
        assert not store.jobs.views([world.job_id])[0].archived, name
    store.archive.take_in(world.job_id)
    job.cancel()
    assert job.view() == said["view"]
    with_swarm.close()


def test_a_message_continues_an_archived_job(store: Store, unmanned: Fleet, objects: Objects) -> None:
    world = JobWorld(store, unmanned)
    world.end("root")
    while store.jobs.settle(world.job_id)[0]:
        pass
    store.archive.take_in(world.job_id)
    Messages(store, world.job_id, lambda signals: None).send("root", "go on")
    assert store.jobs.get(world.job_id).state == "running"
    assert store.keyspace.client.zscore(store.keyspace.key("archivable"), world.job_id) is None
    assert not store.archive.take_in(world.job_id)


@pytest.mark.parametrize(
    "window", ["before the object", "after the object", "in the removal", "in the recall", "at its end"]
)
def test_who_dies_in_between_loses_nothing(
    store: Store, unmanned: Fleet, objects: Objects, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lived(store, unmanned)
    before, past = content(store), exported(store, world.job_id)
    steps = {"in the removal": "archive_job", "in the recall": "recall_part", "at its end": "recall_job"}
    run, outputs = store.keyspace.run, store.keyspace.key("bodies", world.ids["ada"])

    def dying(step: str, *arguments: Any, **more: Any) -> Any:
        if window == "after the object" and step == "archive_job":
            raise Killed
        answer = run(step, *arguments, **more)
        if steps.get(window) == step and (step != "recall_part" or arguments[2] == outputs):
            raise Killed
        return answer

    monkeypatch.setattr(store.keyspace, "run", dying)
    objects.failure = Killed() if window == "before the object" else None
    with pytest.raises(Killed):
        store.archive.take_in(world.job_id)
        store.archive.recall(world.job_id)
    monkeypatch.setattr(store.keyspace, "run", run)
    objects.failure = None
    # The sweep, and then a reader.
    archived = store.jobs.views([world.job_id])[0].archived
    if archived:
        store.leases.begin_sweep("worker", 1, 60, 1e-9)
    for job_id in store.jobs.unsettled():
        while store.jobs.settle(job_id)[0]:
            pass
    if archived:
        # What Redis frees near its limit is not what the archive refers to.
        assert not Forgetting(store.keyspace).has_orphans()
        store.keyspace.client.delete(
            *store.keyspace.client.keys(store.keyspace.key("*lock*")), *map(store.keyspace.key, ("full", "pulse"))
        )
    elif window in ("before the object", "after the object"):
        assert content(store) == before
        assert store.archive.take_in(world.job_id)
    assert exported(store, world.job_id) == past and content(store) == before


def test_a_recall_undoes_nothing_of_another_one(
    store: Store, unmanned: Fleet, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.store.archive._PAGE", 2)
    world = lived(store, unmanned)
    before, run, parts = content(store), store.keyspace.run, dict[str, tuple[Any, ...]]()

    def recall_slowly(step: str, *arguments: Any, **more: Any) -> Any:
        if step == "recall_part":
            # The other client is still at the first part of this key.
            run(step, *arguments, **more)
            return run(step, *parts.setdefault(arguments[2], arguments))
        return run(step, *arguments, **more)

    monkeypatch.setattr(store.keyspace, "run", recall_slowly)
    assert store.archive.take_in(world.job_id) and store.archive.recall(world.job_id)
    assert content(store) == before


def test_a_job_that_changes_meanwhile_stays(store: Store, unmanned: Fleet, objects: Objects) -> None:
    world = JobWorld(store, unmanned, team=False)
    world.end("root")
    while store.jobs.settle(world.job_id)[0]:
        pass
    wrote = objects._write

    def change(*given: Any) -> None:
        wrote(*given)
        Messages(store, world.job_id, lambda signals: None).send("root", "go on")

    objects._write = change  # type: ignore[method-assign]
    assert not store.archive.take_in(world.job_id)
    assert store.jobs.get(world.job_id).state == "running"


def test_a_job_that_is_forgotten_meanwhile_leaves_no_object(store: Store, unmanned: Fleet, objects: Objects) -> None:
    job, key = StoredJob(store, unmanned), store.keyspace.key
    end(store, job)
    wrote, held = objects._write, JobObjects(store.keyspace, objects)

    def forget(*given: Any) -> None:
        Forgetting(store.keyspace).forget(job.job_id)
        held.delete_orphans()
        wrote(*given)

    objects._write = forget  # type: ignore[method-assign]
    assert not store.archive.take_in(job.job_id)
    store.keyspace.client.zadd(key("expiring"), {job.job_id: 1}, xx=True)
    store.jobs.unsettled()
    assert held.delete_orphans() == 1 and list(objects._folder.iterdir()) == []


def test_while_the_store_is_away_nothing_is_removed_and_while_redis_is_full_nothing_comes_back(
    store: Store, unmanned: Fleet, objects: Objects
) -> None:
    world = lived(store, unmanned)
    before = content(store)
    objects.failure = ObjectsAway("it is away")
    with pytest.raises(ObjectsAway):
        store.archive.take_in(world.job_id)
    assert content(store) == before
    objects.failure = None
    store.archive.take_in(world.job_id)
    store.keyspace.client.set(store.keyspace.key("full"), "0.000000001")
    with pytest.raises(RedisFull):
        store.jobs.get(world.job_id)
    store.keyspace.client.delete(store.keyspace.key("full"))
    file = (
        objects._folder
        / world.job_id
        / str(store.keyspace.client.hget(store.keyspace.key("job", world.job_id), "archived"))
    )
    whole = file.read_bytes()
    file.write_bytes(b"damaged")
    with pytest.raises(ObjectMissing):
        store.jobs.get(world.job_id)
    assert store.jobs.views([world.job_id])[0].archived
    file.write_bytes(whole)
    assert not store.jobs.get(world.job_id).archived and content(store) == before


def test_an_archived_job_is_forgotten_with_its_object(store: Store, unmanned: Fleet, objects: Objects) -> None:
    kept = StoredJob(store, unmanned)
    before = set(content(store))
    by_act, by_time = lived(store, unmanned), lived(store, unmanned)
    for world in (by_act, by_time):
        store.archive.take_in(world.job_id)
    swarm = Swarm(unmanned.settings)
    swarm.store = store
    [act] = [one for one in ACTS if one.name == "forget_job"]
    assert act.scope == "forget"
    with pytest.raises(JobOpen):
        act.run(Invocation(swarm, "me"), act.takes(job=kept.job_id))  # type: ignore[call-arg]
    act.run(Invocation(swarm, "me"), act.takes(job=by_act.job_id))  # type: ignore[call-arg]
    client, key = store.keyspace.client, store.keyspace.key
    client.zadd(key("expiring"), {by_time.job_id: 1})
    store.jobs.unsettled()
    assert Forgetting(store.keyspace).has_orphans()
    assert JobObjects(store.keyspace, objects).delete_orphans() == 2
    assert set(content(store)) == before and not client.exists(key("archived"), key("archivable"))
    assert [view.id for view in store.jobs.find(9)] == [kept.job_id] and list(objects._folder.iterdir()) == []
    swarm.close()


def test_workers_archive_what_is_due_and_the_doctor_says_why_they_cannot(
    unmanned: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, commands = open_store(unmanned), CliRunner()
    monkeypatch.setenv("SWARM_REDIS_URL", unmanned.url)
    monkeypatch.setenv("SWARM_KEY_PREFIX", store.keyspace.prefix)
    monkeypatch.setenv("SWARM_STATE_DIR", str(tmp_path))
    job, refused, other = (StoredJob(store, unmanned) for _ in range(3))
    for one in (job, refused):
        store.keyspace.client.hset(store.keyspace.key("job", one.job_id), "archive", "0")
    for one in (job, refused, other):
        end(store, one)

    with pytest.raises(ConfigurationError, match="SWARM_OBJECTS"):
        store.archive.take_in(job.job_id)
    monkeypatch.setenv("SWARM_OBJECTS", str(tmp_path / "objects"))
    store.keyspace.client.zadd(store.keyspace.key("archivable"), {refused.job_id: 0, job.job_id: 1})
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / refused.job_id).touch()
    ObjectsCare(store)()
    # One that the store refuses stops no other.
    assert [bool(view.archived) for view in store.jobs.views([refused.job_id, job.job_id])] == [False, True]
    assert "1 refused" in check_archive(load_settings()).found
    (tmp_path / "objects" / refused.job_id).unlink()
    store.keyspace.client.zadd(store.keyspace.key("archivable"), {refused.job_id: 0})
    commands.invoke(app, ["archive", "--due"])
    assert check_archive(load_settings()).ok
    told = json.loads(commands.invoke(app, ["archive", "--state", "cancelled", "--json"]).stdout)
    assert [one["job_id"] for one in told] == [other.job_id]
    assert other.spec.agent_id in commands.invoke(app, ["tree", other.spec.agent_id]).stdout
    assert not store.jobs.views([other.job_id])[0].archived
    commands.invoke(app, ["forget", "@last", job.job_id, other.job_id, refused.job_id])
    assert store.jobs.ids() == [] and list((tmp_path / "objects").iterdir()) == []


def test_each_outcome_has_its_own_retention(store: Store, unmanned: Fleet) -> None:
    job = StoredJob(store, unmanned)
    settings = Settings(retention_by_state={"cancelled": 30.0})
    store.keyspace.client.hset(
        store.keyspace.key("job", job.job_id), mapping={"retention": 5_000, "retention_cancelled": 30}
    )
    end(store, job)
    assert 0 < store.keyspace.client.ttl(store.keyspace.key("job", job.job_id)) <= 30
    assert json.loads(settings.shared()["SWARM_RETENTION_BY_STATE"]) == {"cancelled": 30.0}
