"""A wake of a workflow takes in what is new: neither its journal nor the records of agents at work are read again.

Tests of swarm/runtime/journal.py, swarm/store/journals.py, swarm/store/agents.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.lives import WIDE, claim_root, run_segment
from swarm.agent.entries import Advanced, Parked
from swarm.agent.history import History, fold
from swarm.definitions.own.workflow import declare_workflow
from swarm.models.anthropic import AnthropicModel
from swarm.runtime.segment import Ended, Waits
from swarm.store.journals import JournalStore
from tests.fleet import Fleet
from tests.outside import storms


def test_a_wake_reads_only_what_is_new_and_comes_to_the_same(unmanned: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.definitions.own.workflow._declared", {})
    monkeypatch.setattr("swarm.capabilities.workflows.kept.LEAST_ENTRIES", 1)
    declare_workflow(storms.wide)
    swarm, model = unmanned.swarm, AnthropicModel.rehearsing(unmanned.settings, "http://127.0.0.1:9")
    whole, fetched, fetch = JournalStore.history, [0], swarm.store.keyspace.fetch
    read = list[str]()

    def count_reads(journals: JournalStore, agent_id: str) -> History:
        read.append(agent_id)
        return whole(journals, agent_id)

    def count_fetched(kind: str, ids: Any, names: Any) -> Any:
        fetched[0] += len(ids)
        return fetch(kind, ids, names)

    job = swarm.submit(
        '{"agents": 30}', agent="wide", workspace=unmanned.workspace, base_url="http://127.0.0.1:9", limits=WIDE
    )
    root = job.view().root_id
    outcome, history = run_segment(unmanned, claim_root(unmanned, job), model)
    children = [*history.spawned.values()]
    assert isinstance(outcome, Waits) and len(children) == 30
    monkeypatch.setattr(JournalStore, "history", count_reads)
    monkeypatch.setattr(swarm.store.keyspace, "fetch", count_fetched)
    for first in range(0, 30, 10):
        for child in children[first : first + 10]:
            swarm.store.agents.cancel(child, "it is enough")
        claim, fetched[0] = claim_root(unmanned, job), 0
        outcome, history = run_segment(unmanned, claim, model)
        assert fetched[0] <= 10 + 2 * 20, "of many agents only the ended ones are read"
    assert not read, "its journal was not read again"
    assert isinstance(outcome, Ended) and job.view().data == 0
    monkeypatch.setattr(JournalStore, "history", whole)
    again = swarm.store.journals.history(root)
    assert again.lived == history.lived and again.spawned == history.spawned and not again.pending


def test_a_history_whose_end_the_journal_has_lost_is_forgotten(
    unmanned: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.definitions.own.workflow._declared", {})
    declare_workflow(storms.wide)
    journals, model = unmanned.swarm.store.journals, AnthropicModel.rehearsing(unmanned.settings, "http://127.0.0.1:9")
    job = unmanned.swarm.submit(
        '{"agents": 2}', agent="wide", workspace=unmanned.workspace, base_url="http://127.0.0.1:9", limits=WIDE
    )
    run_segment(unmanned, claim_root(unmanned, job), model)
    entries = [*journals.read(job.view().root_id)]
    assert isinstance(entries[-1], Parked)

    def known(length: int) -> History:
        return fold(job.view().root_id, entries[:length])

    history = known(3)
    assert journals.go_on(history, entries[2]) and history.length == len(entries)
    assert not journals.go_on(known(3), entries[2].model_copy(update={"at": 1.0}))
    assert not journals.go_on(known(len(entries)), Advanced())
    longer = known(len(entries))
    longer.apply(Advanced())
    assert not journals.go_on(longer, Advanced())
