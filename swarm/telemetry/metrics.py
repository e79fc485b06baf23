"""The fleet's figures as they are now: what was counted of journals, what the steps have counted, and what is there to be looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from swarm.core.records import NANO, TERMINAL_STATES
from swarm.store.store import Store
from swarm.telemetry.names import FIGURES, SECONDS
from swarm.telemetry.store import TelemetryStore

_WORKER_SECONDS = 60.0


@dataclass(frozen=True)
class Sample:
    """One figure with its labels, in the order of the table; of a histogram the sum, and how many fell into each bucket."""

    figure: str
    labels: tuple[str, ...]
    value: float
    buckets: tuple[int, ...] = ()


def read_metrics(store: Store) -> list[Sample]:
    """All figures, in two round trips. Raises `redis.RedisError`."""
    read = TelemetryStore(store.keyspace).figures()
    most = int(read["memory"].get("maxmemory", 0))
    gauges = {
        ("now", "running"): read["running"],
        ("now", "ready"): read["ready"],
        ("oldest",): read["oldest"],
        ("aside",): read["aside"],
        ("questions",): read["questions"],
        ("question_age",): read["question_age"],
        ("workers",): len(read["slots"]),
        ("processes",): sum(read["slots"]),
        ("lag",): read["lag"],
        ("redis_memory",): int(read["memory"]["used_memory"]) / most if most else 0.0,
        ("redis_safe",): float(read["memory"].get("maxmemory_policy") == "noeviction"),
    }
    found = [Sample(name, tuple(labels), float(value)) for (name, *labels), value in gauges.items()]
    return [*found, *read_totals(read["totals"]), *read_counted(read["counted"])]


def read_totals(totals: Mapping[str, str]) -> Iterable[Sample]:
    """What the steps have counted. Pure."""
    for name in ("jobs", "agents", "turns", "rescued"):
        yield Sample(name, (), int(totals.get(name, 0)))
    for state in sorted(TERMINAL_STATES):
        yield Sample("ended", (state,), int(totals.get(f"ended_{state}", 0)))


def read_counted(counted: Mapping[str, str]) -> Iterable[Sample]:
    """What was counted of journals. Pure. Figures of a newer version are left out."""
    histograms: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for key, value in counted.items():
        name, *labels = key.split("|")
        if name not in FIGURES:
            continue
        if FIGURES[name].kind == "histogram":
            histograms[name, labels[0]][labels[1]] = int(value)
        else:
            yield Sample(name, tuple(labels), int(value) / NANO if name == "cost" else int(value))
    for (name, label), found in histograms.items():
        buckets = tuple(found.get(str(place), 0) for place in range(len(SECONDS) + 1))
        yield Sample(name, (label,), found.get("sum", 0) / 1000, buckets)
