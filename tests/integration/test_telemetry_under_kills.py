"""The exporter: spans and figures of jobs, whatever dies."""

from __future__ import annotations

import json
from contextlib import closing

from swarm.ids import trace_id
from tests.fleet import Fleet
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
