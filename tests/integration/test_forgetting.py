"""Forgetting: an ended job goes wholly, in short steps, and an open one not at all.

Tests of swarm/store/forgetting.py, swarm/store/lua/forget_job.lua, swarm/store/objects.py, swarm/cli/forget.py,
swarm/tasks/housekeeping.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from swarm import Settings
from swarm.agent.entries import Finished
from swarm.cli.app import app
from swarm.client.messages import Messages
from swarm.core.errors import JobOpen, MessageRefused, UnknownAgent
from swarm.mailbox import USER
from swarm.objects.folder import FolderObjects
from swarm.store.forgetting import Forgetting
from swarm.store.objects import JobObjects
from swarm.store.store import Store
from swarm.tasks.housekeeping import ObjectsCare
from tests.fleet import Fleet
from tests.job_world import StoredJob


def end(store: Store, job: StoredJob) -> None:
    store.agents.cancel(job.spec.agent_id, "enough", by=(USER, 0))
    while store.jobs.settle(job.job_id)[0]:
        pass


def keys_of(store: Store) -> set[str]:
    keyspace = store.keyspace
    return set(keyspace.client.scan_iter(keyspace.key("*"), count=10_000))


def test_a_forgotten_job_leaves_nothing_but_totals(store: Store, unmanned: Fleet, tmp_path: Path) -> None:
    kept = StoredJob(store, unmanned)
    end(store, kept)
    before = keys_of(store)
    objects = JobObjects(store.keyspace, FolderObjects(tmp_path))
    job = StoredJob(store, unmanned)
    objects.put(job.job_id, b"an output")
    forgetting = Forgetting(store.keyspace)
    with pytest.raises(JobOpen, match=f"swarm cancel {job.job_id}"):
        forgetting.forget(job.job_id)
    end(store, job)
    forgetting.forget(job.job_id)
    assert (
        Forgetting(store.keyspace).has_orphans()
        and objects.delete_orphans() == 1
        and not Forgetting(store.keyspace).has_orphans()
    )
    assert list(tmp_path.iterdir()) == []
    assert keys_of(store) == before
    assert [view.id for view in store.jobs.find(10)] == [kept.job_id]
    with pytest.raises(UnknownAgent):
        forgetting.forget(job.job_id)


def test_a_large_job_is_forgotten_in_short_steps_and_the_sweep_completes_what_a_killed_caller_began(
    store: Store, unmanned: Fleet
) -> None:
    job = StoredJob(store, unmanned)
    claim: Any = store.agents.claim(job.spec.agent_id, "worker", 60)
    length = store.agents.get(job.spec.agent_id).length
    store.agents.finish(claim, length + 1, Finished(generation=claim.generation, state="completed", text="done"))
    run, members = store.keyspace.run, {f"agent-{number:016x}": number + 1 for number in range(1_000)}
    client = store.keyspace.client
    pipeline = client.pipeline(transaction=False)
    pipeline.zadd(store.keyspace.key("job", job.job_id, "agents"), members)
    for agent_id in members:
        pipeline.hset(store.keyspace.key("agent", agent_id), "state", "completed")
    pipeline.execute()
    assert run("forget_job", job.job_id) == ["more"]
    # Nothing continues it from here on.
    with pytest.raises((MessageRefused, UnknownAgent)):
        Messages(store, job.job_id, lambda signals: None).send("root", "go on")
    steps = 0
    while job.job_id in store.jobs.unsettled():
        store.jobs.settle(job.job_id)
        steps += 1
    assert steps > 5
    assert not [key for key in keys_of(store) if ":agent" in key or ":journal:" in key or job.job_id in key]
    run("forget_job", job.job_id)
    assert not store.jobs.ids()


@pytest.fixture
def commands(unmanned: Fleet, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[CliRunner]:
    monkeypatch.setenv("SWARM_REDIS_URL", unmanned.url)
    monkeypatch.setenv("SWARM_KEY_PREFIX", store.keyspace.prefix)
    monkeypatch.setenv("SWARM_STATE_DIR", str(tmp_path))
    yield CliRunner()


def test_the_command_forgets_by_age_and_state_and_says_before_what_would_go(
    store: Store, unmanned: Fleet, commands: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*words: str) -> list[str]:
        done = commands.invoke(app, ["forget", *words, "--json"])
        assert done.exit_code == 0, done.output
        return [each["job_id"] for each in json.loads(done.stdout)]

    old, new, running = (StoredJob(store, unmanned) for _ in range(3))
    end(store, old)
    end(store, new)
    store.keyspace.client.hincrbyfloat(store.keyspace.key("job", old.job_id), "ended", -1_000)
    refused = commands.invoke(app, ["forget", old.job_id, running.job_id])
    assert isinstance(refused.exception, JobOpen) and store.jobs.exists(old.job_id)
    assert told("--state", "failed") == []
    assert told("--older-than", "5m", "--dry-run") == [old.job_id] == told("--older-than", "5m")
    objects = JobObjects(store.keyspace, FolderObjects(tmp_path / "objects"))
    objects.put(new.job_id, b"an output")
    assert told(new.job_id) == [new.job_id]
    assert [view.id for view in store.jobs.find(10)] == [running.job_id] and not Forgetting(
        store.keyspace
    ).has_orphans()
    other = StoredJob(store, unmanned)
    end(store, other)
    objects.put(other.job_id, b"an output")
    monkeypatch.setattr("swarm.client.swarm.open_shared_objects", lambda settings: None)
    assert told(other.job_id) == [other.job_id] and Forgetting(store.keyspace).has_orphans()


def test_a_worker_deletes_the_objects_of_jobs_that_expired(
    store: Store, unmanned: Fleet, commands: CliRunner, tmp_path: Path
) -> None:
    objects = FolderObjects(Settings(state_dir=tmp_path).state_folder() / "objects")
    job = StoredJob(store, unmanned)
    end(store, job)
    JobObjects(store.keyspace, objects).put(job.job_id, b"an output")
    store.keyspace.client.delete(store.keyspace.key("job", job.job_id))
    store.keyspace.client.zadd(store.keyspace.key("expiring"), {job.job_id: 1})
    store.jobs.unsettled()
    ObjectsCare(store)()
    assert not Forgetting(store.keyspace).has_orphans() and not list((tmp_path / "objects").iterdir())
