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
from swarm.agent.entries import Prompt, Started, encode_entry
from swarm.agent.life import fold
from swarm.core.errors import JournalError
from swarm.definitions.catalogue import load_catalogue
from swarm.store.agents import Store
from swarm.store.values import Claim
from tests.fleet import Fleet

TOOLS: list[dict[str, Any]] = [{"name": "Read", "description": "Reads ü.", "input_schema": {"type": "object"}}]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with closing(Fleet()) as fleet:
        yield fleet


def claimed(fleet: Fleet) -> tuple[Job, Claim]:
    job = fleet.swarm.submit("do it", agent="general-purpose", workspace=fleet.workspace)
    claim = fleet.swarm.store.claim(job.view().root_id, "test", 60)
    assert isinstance(claim, Claim)
    return job, claim


def begin(fleet: Fleet, system: str = "You work.") -> tuple[Job, Claim]:
    job, claim = claimed(fleet)
    fleet.swarm.store.append(claim, 1, [Started(spec=claim.spec, system=system, tools=TOOLS), Prompt(text="go")])
    return job, claim


def stored(fleet: Fleet, claim: Claim) -> dict[str, Any]:
    rows = fleet.swarm.store.client.xrange(fleet.swarm.store.key("journal", claim.agent_id))
    found: dict[str, Any] = json.loads(rows[0][1]["e"])
    return found


def test_a_journal_names_its_prefix_and_tells_it_in_full(fleet: Fleet) -> None:
    _, claim = begin(fleet)
    entry = stored(fleet, claim)
    assert (entry["v"], entry["system"], entry["tools"]) == (2, "", [])
    kept = fleet.swarm.store.document(entry["prefix"])
    assert kept is not None and json.loads(kept) == {"system": "You work.", "tools": TOOLS}
    for store in (fleet.swarm.store, Store(fleet.swarm.store.client)):  # one that wrote it, and one that never saw it
        life = fold(claim.agent_id, store.journal(claim.agent_id))
        assert (life.system, life.tools) == ("You work.", TOOLS)


def test_the_same_prefix_is_kept_once_under_the_same_name(fleet: Fleet) -> None:
    first, second, other = (stored(fleet, begin(fleet, system)[1])["prefix"] for system in ("a", "a", "b"))
    assert first == second != other


def test_a_journal_of_before_is_read_as_it_is(fleet: Fleet) -> None:
    _, claim = claimed(fleet)
    old = Started(spec=claim.spec, system="Old.", tools=TOOLS)
    store = fleet.swarm.store
    store.client.xadd(store.key("journal", claim.agent_id), {"e": encode_entry(old)}, id="1-0")
    life = fold(claim.agent_id, store.journal(claim.agent_id))
    assert (life.system, life.tools) == ("Old.", TOOLS)


def test_a_journal_of_a_job_that_has_prefixes_of_its_own_is_read(fleet: Fleet) -> None:
    job, claim = begin(fleet, "Its own.")
    store, digest = fleet.swarm.store, stored(fleet, claim)["prefix"]
    store.client.hset(store.key("job", job.id, "prefixes"), digest, store.document(digest))
    store.client.delete(store.key("document", digest))
    assert fold(claim.agent_id, Store(store.client).journal(claim.agent_id)).system == "Its own."


def test_a_prefix_that_is_gone_is_an_error_that_names_it(fleet: Fleet) -> None:
    job, claim = begin(fleet, "Soon gone.")
    client, digest = fleet.swarm.store.client, stored(fleet, claim)["prefix"]
    client.delete(fleet.swarm.store.key("document", digest))
    with pytest.raises(JournalError, match=f"{digest[:12]}.*{job.id}"):
        list(Store(client).journal(claim.agent_id))


def expire(fleet: Fleet, job: Job) -> None:
    fleet.swarm.store.client.delete(fleet.swarm.store.key("job", job.id))


def look_through_documents(fleet: Fleet) -> None:
    """What the sweep does, once the time of all documents has come."""
    store = fleet.swarm.store
    for digest in store.client.zrange(store.key("documents"), 0, -1):
        store.client.zadd(store.key("documents"), {digest: 0})
    for _ in range(20):
        store.unsettled()


def test_a_document_is_kept_as_long_as_any_job_has_a_record_and_not_longer(fleet: Fleet) -> None:
    store = fleet.swarm.store
    (first, claim), (second, _) = begin(fleet, "Shared."), begin(fleet, "Shared.")
    digest = stored(fleet, claim)["prefix"]
    first.cancel()
    look_through_documents(fleet)
    assert store.document(digest), "a job that ended can be read, and resumed, until it expires"
    expire(fleet, first)
    look_through_documents(fleet)
    assert store.document(digest), "another job, which runs, refers to it"
    expire(fleet, second)
    look_through_documents(fleet)
    assert store.document(digest) is None
    assert not store.client.exists(store.key("document", digest, "jobs"))
    assert store.client.zscore(store.key("documents"), digest) is None
    _, again = begin(fleet, "Shared.")
    assert fold(again.agent_id, Store(store.client).journal(again.agent_id)).system == "Shared."


def test_the_documents_of_many_expired_jobs_are_forgotten_in_short_steps(fleet: Fleet) -> None:
    store = fleet.swarm.store
    _, claim = begin(fleet, "Of many.")
    digest = stored(fleet, claim)["prefix"]
    store.client.sadd(store.key("document", digest, "jobs"), *(f"job-{n:016x}" for n in range(300)))
    expire(fleet, Job(fleet.swarm, claim.spec.job_id))
    store.client.zadd(store.key("documents"), {digest: 0})
    store.unsettled()
    assert store.document(digest), "not more than some at once"
    for _ in range(20):
        store.unsettled()
    assert store.document(digest) is None


def test_the_definitions_that_travel_with_jobs_are_kept_once_and_found_again(fleet: Fleet) -> None:
    store = fleet.swarm.store
    jobs = [fleet.swarm.submit("do it", workspace=fleet.workspace) for _ in range(2)]
    named = {store.client.hget(store.key("job", job.id), "definitions") for job in jobs}
    assert len(named) == 1
    assert [store.catalogue(job.id) for job in jobs] == [load_catalogue(fleet.workspace).model_dump_json()] * 2


def test_a_job_that_ended_keeps_little_of_its_own(fleet: Fleet) -> None:
    job, claim = begin(fleet)
    job.cancel()
    store = fleet.swarm.store
    keys = [key for name in (job.id, claim.agent_id) for key in store.client.scan_iter(f"*{name}*", count=10_000)]
    assert 0 < sum(store.client.memory_usage(key, samples=0) for key in keys) < 20_000
