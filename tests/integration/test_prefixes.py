"""What an agent's requests begin with is kept once per job, and the life that a journal tells does not notice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from swarm import Job
from swarm.agent.entries import Prompt, Started, encode_entry
from swarm.agent.life import fold
from swarm.errors import JournalError
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
    job, claim = begin(fleet)
    entry = stored(fleet, claim)
    assert (entry["v"], entry["system"], entry["tools"]) == (2, "", [])
    kept = fleet.swarm.store.client.hgetall(fleet.swarm.store.key("job", job.id, "prefixes"))
    assert {digest: json.loads(text) for digest, text in kept.items()} == {
        entry["prefix"]: {"system": "You work.", "tools": TOOLS}
    }
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


def test_a_prefix_that_is_gone_is_an_error_that_names_it(fleet: Fleet) -> None:
    job, claim = begin(fleet, "Soon gone.")
    client = fleet.swarm.store.client
    client.delete(fleet.swarm.store.key("job", job.id, "prefixes"))
    with pytest.raises(JournalError, match=f"{stored(fleet, claim)['prefix'][:12]}.*{job.id}"):
        list(Store(client).journal(claim.agent_id))


def test_prefixes_expire_with_their_job(fleet: Fleet) -> None:
    job, _ = begin(fleet)
    job.cancel()
    assert fleet.swarm.store.client.ttl(fleet.swarm.store.key("job", job.id, "prefixes")) > 0
