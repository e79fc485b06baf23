"""What an agent's requests begin with is kept once per swarm, and the life that a journal tells does not notice.

Tests of swarm/store/documents.py, swarm/store/prefixes.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from swarm import Job
from swarm.agent.entries import Prompt, Started
from swarm.agent.history import fold
from swarm.core.errors import JournalError
from swarm.definitions.catalogue import load_catalogue
from swarm.store.store import Store
from swarm.store.values import Claim
from tests.fleet import Fleet

TOOLS: list[dict[str, Any]] = [{"name": "Read", "description": "Reads ü.", "input_schema": {"type": "object"}}]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with closing(Fleet()) as fleet:
        yield fleet


def claimed(fleet: Fleet) -> tuple[Job, Claim]:
    job = fleet.swarm.submit("do it", agent="general-purpose", workspace=fleet.workspace)
    claim = fleet.swarm.store.agents.claim(job.view().root_id, "test", 60)
    assert isinstance(claim, Claim)
    return job, claim


def begin(fleet: Fleet, system: str = "You work.") -> tuple[Job, Claim]:
    job, claim = claimed(fleet)
    fleet.swarm.store.journals.append(
        claim, 1, [Started(spec=claim.spec, system=system, tools=TOOLS), Prompt(text="go")]
    )
    return job, claim


def stored(fleet: Fleet, claim: Claim) -> dict[str, Any]:
    rows = fleet.swarm.store.keyspace.client.xrange(fleet.swarm.store.keyspace.key("journal", claim.agent_id))
    found: dict[str, Any] = json.loads(rows[0][1]["e"])
    return found


def test_a_journal_names_its_prefix_and_tells_it_in_full(fleet: Fleet) -> None:
    _, claim = begin(fleet)
    entry = stored(fleet, claim)
    assert (entry["system"], entry["tools"]) == ("", [])
    kept = fleet.swarm.store.jobs.document(entry["prefix"])
    assert kept is not None and json.loads(kept) == {"system": "You work.", "tools": TOOLS}
    for store in (
        fleet.swarm.store,
        Store(fleet.swarm.store.keyspace.client),
    ):  # one that wrote it, and one that never saw it
        history = fold(claim.agent_id, store.journals.read(claim.agent_id))
        assert (history.system, history.tools) == ("You work.", TOOLS)


def test_the_same_prefix_is_kept_once_under_the_same_name(fleet: Fleet) -> None:
    first, second, other = (stored(fleet, begin(fleet, system)[1])["prefix"] for system in ("a", "a", "b"))
    assert first == second != other


def test_a_prefix_that_is_gone_is_an_error_that_names_it(fleet: Fleet) -> None:
    job, claim = begin(fleet, "Soon gone.")
    client, digest = fleet.swarm.store.keyspace.client, stored(fleet, claim)["prefix"]
    client.delete(fleet.swarm.store.keyspace.key("document", digest))
    with pytest.raises(JournalError, match=f"{digest[:12]}.*{job.id}"):
        list(Store(client).journals.read(claim.agent_id))


def expire(fleet: Fleet, job: Job) -> None:
    """What time does to an ended job, and the sweep after it."""
    store = fleet.swarm.store
    store.keyspace.client.delete(store.keyspace.key("job", job.id))
    store.keyspace.client.zadd(store.keyspace.key("expiring"), {job.id: 0})
    store.jobs.unsettled()


def test_a_document_is_kept_as_long_as_any_job_has_a_record_and_not_longer(fleet: Fleet) -> None:
    store = fleet.swarm.store
    (first, claim), (second, _) = begin(fleet, "Shared."), begin(fleet, "Shared.")
    digest = stored(fleet, claim)["prefix"]
    first.cancel()
    store.jobs.unsettled()
    assert store.jobs.document(digest), "a job that ended can be read, and resumed, until it expires"
    expire(fleet, first)
    assert store.jobs.document(digest), "another job, which runs, refers to it"
    expire(fleet, second)
    assert store.jobs.document(digest) is None
    assert store.keyspace.client.zscore(store.keyspace.key("documents"), digest) is None
    assert store.keyspace.client.hmget(store.keyspace.key("references"), first.id, second.id) == [None, None]
    _, again = begin(fleet, "Shared.")
    assert fold(again.agent_id, Store(store.keyspace.client).journals.read(again.agent_id)).system == "Shared."


def test_the_documents_of_many_expired_jobs_are_forgotten_in_short_steps(fleet: Fleet) -> None:
    store = fleet.swarm.store
    _, claim = begin(fleet, "Of many.")
    digest = stored(fleet, claim)["prefix"]
    for n in range(300):
        store.keyspace.client.hset(store.keyspace.key("references"), f"job-{n:016x}", digest)
        store.keyspace.client.zincrby(store.keyspace.key("documents"), 1, digest)
        store.keyspace.client.zadd(store.keyspace.key("expiring"), {f"job-{n:016x}": 0})
    expire(fleet, Job(fleet.swarm, claim.spec.job_id))
    assert store.keyspace.client.zscore(store.keyspace.key("documents"), digest) == 201, "not more than some at once"
    for _ in range(3):
        store.jobs.unsettled()
    assert store.jobs.document(digest) is None


def test_the_definitions_that_travel_with_jobs_are_kept_once_and_found_again(fleet: Fleet) -> None:
    store = fleet.swarm.store
    jobs = [fleet.swarm.submit("do it", workspace=fleet.workspace) for _ in range(2)]
    named = {store.keyspace.client.hget(store.keyspace.key("job", job.id), "definitions") for job in jobs}
    assert len(named) == 1
    assert [store.jobs.catalogue(job.id) for job in jobs] == [load_catalogue(fleet.workspace).model_dump_json()] * 2


def test_a_job_that_ended_keeps_little_of_its_own(fleet: Fleet) -> None:
    job, claim = begin(fleet)
    job.cancel()
    store = fleet.swarm.store
    keys = [
        key for name in (job.id, claim.agent_id) for key in store.keyspace.client.scan_iter(f"*{name}*", count=10_000)
    ]
    assert 0 < sum(store.keyspace.client.memory_usage(key, samples=0) for key in keys) < 20_000
