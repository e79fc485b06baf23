"""Spans and figures of journals, and the names under which they are told.

Tests of swarm/telemetry/metrics.py, swarm/telemetry/names.py, swarm/telemetry/spans.py, swarm/telemetry/store.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from swarm.core.records import AgentView
from swarm.core.usage import Usage
from swarm.store.journals import StoredEntry
from swarm.telemetry.metrics import read_counted
from swarm.telemetry.names import FIGURES, LABELS
from swarm.telemetry.spans import Fold, Span, job_span_id, run_span_id

DEPLOY = Path(__file__).resolve().parents[2] / "deploy/telemetry"
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}


def entry(kind: str, at: float, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "v": 1, "at": at, **fields}


HISTORY = [
    entry("started", 10.0),
    entry("prompt", 10.0, text="go"),
    entry("model_failed", 11.0, error="busy", error_kind="overloaded", permanent=False),
    entry(
        "assistant",
        15.0,
        content=[{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}],
        stop_reason="tool_use",
        usage=USAGE,
        cost_usd=0.25,
        model="m",
        duration_seconds=3.0,
    ),
    entry("tool_started", 16.0, tool_use_id="t1"),
    entry("tool_finished", 20.0, tool_use_id="t1", text="no", is_error=True),
    entry("spawned", 20.5, children={"t2": "agent-child"}),
    entry("parked", 21.0, condition={}),
    entry("a_kind_of_tomorrow", 22.0),
    entry("finished", 30.0, state="completed", text="done"),
    entry("resumed", 50.0),
    entry("spawned", 51.0, children={"t3": "agent-late", "t4": "agent-child"}),
    entry("finished", 60.0, state="failed", reason="x"),
]


def fold_history(*, parent: str | None = None) -> tuple[Fold, list[Span], dict[str, int]]:
    view = AgentView(
        id="agent-1",
        job_id="job-1",
        parent_id=parent,
        state="failed",
        definition="fixer",
        model="m",
        usage=Usage(),
        cost_usd=0.0,
        subtree_tokens=0,
        subtree_cost_usd=0.0,
        created_at=9.0,
    )
    fold, spans, counts = Fold(view, "anthropic", job_span_id("job-1")), list[Span](), dict[str, int]()
    for number, one in enumerate(HISTORY, 1):
        made, added = fold.take(StoredEntry(number, number, json.dumps(one)))
        spans += made
        counts = {name: counts.get(name, 0) + added[name] for name in counts.keys() | added.keys()}
    return fold, spans, counts


def test_a_life_becomes_a_tree_of_spans_and_a_later_run_is_linked_to_the_one_before() -> None:
    fold, spans, _ = fold_history()
    told = {(span.name, span.start, span.end, span.error) for span in spans}
    assert told == {
        ("chat m", 11.0, 11.0, "overloaded"),
        ("chat m", 12.0, 15.0, ""),
        ("execute_tool Bash", 16.0, 20.0, "tool_error"),
        ("invoke_agent fixer", 10.0, 30.0, ""),
        ("invoke_workflow fixer", 9.0, 30.0, ""),
        ("invoke_agent fixer", 50.0, 60.0, "failed"),
    }
    first, second = (span for span in spans if span.name == "invoke_agent fixer")
    assert (first.parent, first.link, first.events) == (job_span_id("job-1"), "", (("parked", 21.0),))
    assert (second.parent, second.link) == (job_span_id("job-1"), first.id)
    assert [span.id for span in spans if not span.parent] == [job_span_id("job-1")]
    assert {span.parent for span in spans if span.name.split()[0] in ("chat", "execute_tool")} == {first.id}
    assert fold.children == {"agent-child": 0, "agent-late": 1}
    assert len({span.id for span in spans}) == len(spans) and fold_history()[1] == spans
    assert not any(span.name.startswith("invoke_workflow") for span in fold_history(parent="agent-0")[1])


def test_figures_of_entries_are_those_of_the_table() -> None:
    _, _, counts = fold_history()
    samples = list(read_counted({name: str(value) for name, value in counts.items()}))
    values = {(one.figure, *one.labels): one.value for one in samples}
    assert values == {
        ("input", "m"): 130,
        ("output", "m"): 5,
        ("cache_read", "m"): 100,
        ("cache_write", "m"): 20,
        ("cost", "m", "false"): 0.25,
        ("model_errors", "overloaded"): 1,
        ("model_seconds", "m"): 3.0,
        ("tool_errors", "Bash"): 1,
        ("tool_seconds", "Bash"): 4.0,
    }
    assert [sum(one.buckets) for one in samples if one.buckets] == [1, 1]
    assert all(len(one.labels) == len(FIGURES[one.figure].labels) for one in samples)
    assert run_span_id("agent-1", 0) != run_span_id("agent-1", 1)


# -- what reads them ------------------------------------------------------------------------------------------


def exposed() -> dict[str, tuple[str, ...]]:
    """Series by name, with their labels."""
    found: dict[str, tuple[str, ...]] = {}
    for figure in FIGURES.values():
        parts = {"histogram": ("_bucket", "_sum", "_count")}.get(figure.kind, ("",))
        for part in parts:
            found[figure.prometheus + part] = (*figure.labels, *(("le",) if part == "_bucket" else ()))
    return found


def queries() -> list[str]:
    board = json.loads((DEPLOY / "dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())
    asked += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    scaled = (DEPLOY / "kubernetes.yaml").read_text()
    return asked + re.findall(r"(?:query|metricsQuery|seriesQuery): '([^']+)'", scaled)


def test_dashboard_alerts_and_scaling_ask_for_series_and_labels_that_there_are() -> None:
    series, asked = exposed(), queries()
    used = {name for query in asked for name in re.findall(r"\bswarm_\w+", query)}
    assert used - series.keys() == set()
    # What nobody looks at should not be there.
    assert {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in used} >= {
        figure.prometheus for key, figure in FIGURES.items() if key not in ("jobs", "agents", "turns")
    }
    for query in asked:
        for name, chosen in re.findall(r"\b(swarm_\w+)\{([^}]*)\}", query):
            assert {word.split("=")[0].strip("!~ ") for word in chosen.split(",") if word} <= set(series[name]), query
        for grouped in re.findall(r"by \(([^)]*)\)", query):
            labels = {label for name in re.findall(r"\bswarm_\w+", query) for label in series[name]}
            assert {word.strip() for word in grouped.split(",")} <= labels, query


def test_every_figure_has_a_name_of_its_own_and_labels_that_are_known() -> None:
    assert all(len({getattr(one, name) for one in FIGURES.values()}) == len(FIGURES) for name in ("prometheus", "otlp"))
    told = (DEPLOY.parents[1] / "docs/telemetry.md").read_text()
    assert all(f"| `{one.prometheus}` | `{one.otlp}` | {one.kind} |" in told for one in FIGURES.values())
    families = [figure.prometheus.removesuffix("_total") for figure in FIGURES.values()]
    assert len(set(families)) == len(families), "a counter and a gauge would be one family"
    for figure in FIGURES.values():
        assert figure.prometheus.startswith("swarm_") and set(figure.labels) <= LABELS.keys()
        assert figure.prometheus.endswith("_total") is (figure.kind == "counter")
