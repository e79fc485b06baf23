"""The exporter: spans and figures of jobs, whatever dies.

Tests of swarm/cli/daemons.py, swarm/telemetry/metrics.py, swarm/telemetry/otlp.py, swarm/telemetry/journal_reader.py,
swarm/telemetry/exporter.py, swarm/telemetry/prometheus.py, swarm/telemetry/spans.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing

from swarm.agent.entries import Assistant, Finished
from swarm.core.ids import trace_id
from swarm.models import Usage
from swarm.store.store import Store
from swarm.store.values import Claim, Counters
from swarm.telemetry.journal_reader import JournalReader
from swarm.telemetry.metrics import read_metrics
from swarm.telemetry.spans import Span
from tests.fleet import Fleet
from tests.job_world import StoredJob
from tests.telemetry_world import Receiver, find_faults, play


def test_a_trace_is_whole_and_figures_are_exact_though_workers_and_exporters_are_killed(fleet: Fleet) -> None:
    with closing(Receiver(refused=10, unanswered=10)) as receiver:
        job, exporter = play(fleet, receiver, "TREE depth=2 fanout=3 steps=2 think=100", kills=1)
        assert len(job.agents()) == 13 and exporter.kills >= 3
        assert find_faults(fleet, receiver, job) == []
        lines = [line for worker in fleet.workers[:2] for line in worker.text().splitlines() if line.startswith("{")]
        begun = [line for line in map(json.loads, lines) if line.get("event") == "agent.running"]
        assert begun and {(line["job_id"], line["trace_id"]) for line in begun} == {(job.id, trace_id(job.id))}
        sent = {metric.name for one in receiver.metrics for metric in one.resource_metrics[0].scope_metrics[0].metrics}
        assert {"gen_ai.client.inference.usage.input_tokens", "gen_ai.client.inference.duration"} <= sent


def reply(store: Store, claim: Claim, number: int) -> None:
    entry = Assistant(content=[], stop_reason="end_turn", usage=Usage(output_tokens=7), model="m")
    store.journals.append(claim, number, [entry], counters=Counters(turns=1, output=7))


def written(store: Store) -> float:
    return sum(one.value for one in read_metrics(store.keyspace) if one.figure == "output")


def test_readers_beside_each_other_count_once_and_whoever_takes_over_tells_what_was_not_told(
    store: Store, unmanned: Fleet
) -> None:
    told: list[str] = []

    def take(spans: Sequence[Span]) -> bool:
        told.extend(span.id for span in spans)
        return True

    job = StoredJob(store, unmanned)
    claim = job.take_claim(job.spec.agent_id)
    counting, refused, telling = (
        JournalReader(store, "p", None),
        JournalReader(store, "p", lambda spans: False),
        JournalReader(store, "p", take),
    )
    reply(store, claim, 1)
    assert counting.read() and written(store) == 7
    assert not refused.read(), "its receiver takes nothing"
    assert not telling.read() and told == [], "another one is at work"
    reply(store, claim, 2)
    assert not refused.read() and written(store) == 14
    refused.leave()
    assert telling.read() and len(told) == 2
    store.agents.finish(claim, 3, Finished(state="completed", text="done"))
    assert telling.read() and counting.read() and telling.read()
    assert len(told) == len(set(told)) == 4 and written(store) == 14
    assert (
        read_metrics(store.keyspace)
        and store.keyspace.client.ttl(store.keyspace.key("job", job.job_id, "telemetry")) > 0
    )
    again = JournalReader(store, "p", take)
    telling.leave()
    assert again.read() and len(told) == 4
