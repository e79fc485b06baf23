"""The index of jobs: lists, filters and pages read what they return, and what has expired is in no list.

Tests of swarm/store/jobs.py, swarm/client/swarm.py, swarm/client/reads.py, swarm/cli/jobs.py, swarm/core/records.py.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, get_args

import pytest
import redis

from swarm import Swarm
from swarm.agent.entries import Finished
from swarm.cli.jobs import JobFilter
from swarm.client.messages import Messages
from swarm.core.errors import ConfigurationError, MessageRefused, UnknownAgent
from swarm.core.records import JobView, ListedState
from swarm.mailbox import USER
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.job_world import StoredJob, count_commands
from tests.waiting import wait_for

KEPT = 3_000


@pytest.fixture
def swarm(unmanned: Fleet, store: Store) -> Iterator[Swarm]:
    """A swarm without workers, whose jobs the test ends itself."""
    with closing(Swarm(unmanned.settings)) as swarm:
        swarm.store = store
        yield swarm


def copy_job(store: Store, job_id: str, times: int) -> None:
    """Keep copies of an ended job, two at each later moment."""
    client, keyspace = store.keyspace.client, store.keyspace
    view, record = store.jobs.get(job_id), client.hgetall(keyspace.key("job", job_id))
    pipeline = client.pipeline(transaction=False)
    for number in range(times):
        copy, created = f"job-{number:016x}", view.created_at + number // 2
        pipeline.hset(keyspace.key("job", copy), mapping={**record, "created": repr(created)})
        for index in ("jobs", f"jobs:{view.state}"):
            pipeline.zadd(keyspace.key(index), {copy: created})
    pipeline.execute()


def end(store: Store, job: StoredJob) -> None:
    store.agents.cancel(job.spec.agent_id, "enough", by=(USER, 0))


def sent_bytes(store: Store) -> int:
    return int(store.keyspace.client.info("stats")["total_net_output_bytes"])


def test_open_jobs_are_listed_at_the_same_cost_beside_thousands_that_ended(swarm: Swarm, unmanned: Fleet) -> None:
    store = swarm.store
    running = [StoredJob(store, unmanned).job_id for _ in range(3)][::-1]
    ended = [StoredJob(store, unmanned) for _ in range(3)]
    for job in ended:
        end(store, job)

    def look() -> None:
        assert [view.id for view in swarm.jobs(state="running")] == running
        assert [view.id for view in JobFilter(("running",)).find(swarm, 20, Counter())] == running
        assert sorted(swarm.find_lacks()) == sorted(running)

    def spend() -> tuple[int, int]:
        before = sent_bytes(store)
        commands = count_commands(store, look)
        return commands, sent_bytes(store) - before

    look()
    few = spend()
    copy_job(store, ended[0].job_id, KEPT)
    many = spend()
    assert many[0] == few[0]
    assert abs(many[1] - few[1]) < 1_000  # figures in the answers of INFO
    assert len(swarm.jobs(5_000)) == KEPT + 6


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_pages_show_each_job_exactly_once_though_jobs_end_and_expire_between(
    swarm: Swarm, unmanned: Fleet, size: int
) -> None:
    store, client = swarm.store, swarm.store.keyspace.client
    jobs = [StoredJob(store, unmanned) for _ in range(6)]
    end(store, jobs[0])
    copy_job(store, jobs[0].job_id, 40)
    for state in (None, "completed", "cancelled", "running"):
        wanted = [view.id for view in swarm.jobs(100) if state in (None, view.state)]
        shown: list[JobView] = []
        while part := swarm.jobs(size, state=state, before=shown[-1].position if shown else ""):  # type: ignore[arg-type]
            shown += part
        assert [view.id for view in shown] == wanted
    first, second, *rest = swarm.jobs(10, state="running")
    end(store, next(job for job in jobs if job.job_id == first.id))
    client.delete(store.keyspace.key("job", second.id))
    client.zadd(store.keyspace.key("expiring"), {second.id: 0})
    store.jobs.unsettled()
    assert [view.id for view in swarm.jobs(state="running", before=second.position)] == [view.id for view in rest]
    assert [view.id for view in swarm.jobs(state="running", before=first.position)] == [view.id for view in rest]


def test_words_are_found_in_any_case_and_however_far_back(swarm: Swarm, unmanned: Fleet) -> None:
    store, client = swarm.store, swarm.store.keyspace.client
    old, new = StoredJob(store, unmanned), StoredJob(store, unmanned)
    client.hset(store.keyspace.key("job", old.job_id), "title", "Die Größe der ÄPFEL")
    end(store, new)
    copy_job(store, new.job_id, KEPT)
    for words in ("äpfel", "GRÖSSE", "größe", "der ä", old.job_id[4:12].upper()):
        found = [view.id for view in JobFilter((), None, words).find(swarm, 2, Counter())]
        assert found == ([] if words == "GRÖSSE" else [old.job_id]), words
    # A look through all of them is short steps of one command each, not a round trip for each job.
    client.config_resetstat()
    assert swarm.jobs(5, text="no job has this") == []
    assert client.info("commandstats")["cmdstat_fcall"]["calls"] <= 2 * (KEPT // 1_000 + 1)
    assert [view.id for view in swarm.jobs(text=unmanned.workspace.name.upper(), since=9e9)] == []


def test_a_position_that_is_none_is_refused(swarm: Swarm) -> None:
    with pytest.raises(ConfigurationError, match="'job-1' is no position"):
        swarm.jobs(before="job-1")


def test_states_are_combined_and_jobs_that_ask_are_found_by_their_ids(swarm: Swarm, unmanned: Fleet) -> None:
    jobs = [StoredJob(swarm.store, unmanned) for _ in range(4)]
    for job in jobs[:2]:
        end(swarm.store, job)
    ids = [job.job_id for job in jobs]
    asking = Counter({ids[0]: 1, "job-gone": 1})
    assert [view.id for view in JobFilter(("asking",)).find(swarm, 9, asking)] == [ids[0]]
    assert [view.id for view in JobFilter(("cancelled", "asking", "failed")).find(swarm, 9, asking)] == ids[1::-1]
    assert [view.id for view in JobFilter(("cancelled", "running")).find(swarm, 3, asking)] == ids[:0:-1]


def test_a_job_that_nobody_can_run_is_told_however_many_are_newer(swarm: Swarm, unmanned: Fleet) -> None:
    stuck = StoredJob(swarm.store, unmanned)
    for _ in range(25):
        end(swarm.store, StoredJob(swarm.store, unmanned))
    assert list(swarm.find_lacks()) == [stuck.job_id]


def test_lists_and_documents_shrink_when_jobs_and_maps_expire(unmanned: Fleet) -> None:
    client = redis.Redis.from_url(unmanned.url, decode_responses=True)
    settings = unmanned.settings.model_copy(update={"key_prefix": f"t{secrets.token_hex(4)}", "retention_seconds": 1.0})
    with closing(Swarm(settings)) as swarm:
        lasting = Swarm(settings.model_copy(update={"retention_seconds": 600.0}))
        kept = lasting.submit("stay", workspace=unmanned.workspace)
        for _ in range(5):
            swarm.submit("go", workspace=unmanned.workspace).cancel()
        made = swarm.map("do {it}", ["a", "b"], workspace=unmanned.workspace)
        made.cancel()
        key, store = swarm.store.keyspace.key, swarm.store

        def forget() -> bool:
            for job_id in store.jobs.unsettled():
                store.jobs.settle(job_id)
            return client.zcard(key("jobs")) == 1 and client.zcard(key("maps")) == 0

        wait_for("expired jobs and maps are forgotten", forget)
        assert [view.id for view in swarm.jobs()] == [kept.id] and swarm.maps() == []
        texts = client.keys(key("document", "*"))
        [[owner, digests]] = client.hgetall(key("references")).items()
        assert owner == kept.id and set(texts) == {key("document", digest) for digest in digests.split()}
        assert len(texts) == client.zcard(key("documents"))
        assert client.zcard(key("jobs", "cancelled")) == client.zcard(key("expiring")) == 0
        lasting.close()


def indexed(store: Store) -> dict[str, list[str]]:
    key = store.keyspace.key
    names = {state: ("jobs", state) for state in get_args(ListedState)} | {"all": ("jobs",)}
    found = {name: store.keyspace.client.zrange(key(*parts), 0, -1) for name, parts in names.items()}
    return {name: ids for name, ids in found.items() if ids}


def true_index(store: Store) -> dict[str, list[str]]:
    """What the records say, by state."""
    client, found = store.keyspace.client, dict[str, list[tuple[float, str]]]()
    for name in client.scan_iter(store.keyspace.key("job", "job-????????????????"), count=1000):
        state, created = client.hmget(name, "state", "created")
        for each in (state, "all"):
            found.setdefault(each, []).append((float(created), name.rpartition(":")[2]))
    return {state: [job for _, job in sorted(jobs)] for state, jobs in found.items()}


@pytest.mark.parametrize("seed", range(4))
def test_the_index_equals_the_records_after_any_submissions_ends_and_expiries(
    store: Store, unmanned: Fleet, seed: int
) -> None:
    chance, client, key = random.Random(seed), store.keyspace.client, store.keyspace.key
    jobs: dict[str, StoredJob] = {}

    def submit() -> None:
        job = StoredJob(store, unmanned)
        jobs[job.job_id] = job

    def submit_again(job: StoredJob) -> None:
        store.jobs.submit(job.spec, catalogue="{}", retention_seconds=60)

    def finish(job: StoredJob) -> None:
        claim: Any = store.agents.claim(job.spec.agent_id, "worker", 60)
        if getattr(claim, "generation", None):
            length = store.agents.get(job.spec.agent_id).length
            state = chance.choice(["completed", "failed", "timed_out"])
            store.agents.finish(claim, length + 1, Finished(generation=claim.generation, state=state, text="done"))

    def go_on(job: StoredJob) -> None:
        Messages(store, job.job_id, lambda signals: None).send("root", "go on")

    def cancel(job: StoredJob) -> None:
        end(store, job)

    def expire(job: StoredJob) -> None:
        if store.jobs.get(job.job_id).ended:
            agent = job.spec.agent_id
            client.delete(key("job", job.job_id), key("agent", agent), key("journal", agent), key("mail", agent))
            client.zadd(key("expiring"), {job.job_id: 0})
            if chance.random() < 0.8:
                store.jobs.unsettled()

    for _ in range(150):
        act = chance.choice([None, submit_again, finish, finish, go_on, expire, cancel])
        if act is None or not jobs:
            submit()
            continue
        # An act on a job that has expired, or a message to one that was cancelled.
        with suppress(UnknownAgent, MessageRefused):
            act(chance.choice(list(jobs.values())))
    store.jobs.unsettled()
    assert indexed(store) == true_index(store) and len(indexed(store)) > 3
    assert sorted(view.id for view in store.jobs.find(1_000)) == sorted(true_index(store)["all"])
    assert sorted(client.hkeys(key("references"))) == sorted(store.jobs.ids())
