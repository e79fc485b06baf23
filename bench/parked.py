"""Parked agents in one Redis: bytes each, and what a sweep costs with them there and without."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.lives import claim_root, run_segment, submit
from bench.measure import Report
from bench.served import serve
from swarm.agent.entries import (
    Assistant,
    Entry,
    Parked,
    Prompt,
    Spawned,
    Started,
    encode_entry,
)
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.models.anthropic import AnthropicModel
from swarm.store.values import Claim
from tests.fleet import Fleet

PER_JOB = 1_000
PER_SPAWN = 100
SWEEPS = 300


def run(report: Report, chosen: Namespace) -> None:
    """Each has begun, had one reply and waits for a time far away: as an agent does that waits for a rate limit."""
    with serve() as url, closing(Fleet()) as fleet:
        claim = claim_root(fleet, submit(fleet, url, "TREE depth=1 fanout=1"))
        run_segment(fleet, claim, AnthropicModel.rehearsing(fleet.settings, url))
        recorded = list(fleet.swarm.store.journals.read(claim.agent_id))
        opening: list[Entry] = [entry for entry in recorded if isinstance(entry, Started | Prompt | Assistant)]
        report.note(f"without them: sweep {_sweep_ms(fleet):.3f} ms")
        before, began = _used_memory(fleet), time.monotonic()
        made = 0
        while made < chosen.agents:
            made += _park_some(fleet, url, min(PER_JOB, chosen.agents - made), opening)
        spent = time.monotonic() - began
        each = (_used_memory(fleet) - before) / made
        documents = sum(len(encode_entry(entry)) for entry in opening)
        report.note(f"{made:,} parked agents (made in {spent:.0f} s): {each:,.0f} bytes each")
        started = sum(len(encode_entry(entry)) for entry in opening if isinstance(entry, Started))
        report.note(f"their journal entries alone: {documents:,} bytes, {started:,} of them the `started` entry")
        report.note(f"with them: sweep {_sweep_ms(fleet):.3f} ms")


def _park_some(fleet: Fleet, url: str, count: int, opening: list[Entry]) -> int:
    store = fleet.swarm.store
    root = claim_root(fleet, submit(fleet, url, "parent"))
    number = 1
    far = time.time() + 86_400
    for first in range(0, count, PER_SPAWN):
        specs = [_child(root.spec, index) for index in range(first, min(count, first + PER_SPAWN))]
        spawned = Spawned(children={f"toolu_{spec.agent_id}": spec.agent_id for spec in specs})
        store.agents.spawn(root, number, spawned, specs)
        number += 1
        for spec in specs:
            claim = store.agents.claim(spec.agent_id, "bench", 3600.0)
            assert isinstance(claim, Claim), claim
            store.journals.append(claim, 1, opening, activity="waiting")
            condition = Condition(until=far)
            store.agents.park(claim, 1 + len(opening), Parked(condition=condition), condition)
    return count


def _child(parent: AgentSpec, index: int) -> AgentSpec:
    update = {"agent_id": f"{parent.agent_id}-{index}", "parent_id": parent.agent_id, "depth": 1}
    return parent.model_copy(update=update)


def _used_memory(fleet: Fleet) -> int:
    return int(fleet.swarm.store.keyspace.client.info("memory")["used_memory"])


def _sweep_ms(fleet: Fleet) -> float:
    spent = []
    for _ in range(SWEEPS):
        began = time.monotonic()
        fleet.swarm.store.leases.rescue(max_deaths=5, outbox_age_seconds=float("inf"))
        spent.append(time.monotonic() - began)
    return statistics.median(spent) * 1e3
