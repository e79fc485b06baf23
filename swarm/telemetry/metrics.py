"""The fleet's current figures: counts from journals, counts of steps, and current state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from swarm.core.records import TERMINAL_STATES
from swarm.core.usage import NANO
from swarm.store.keyspace import Keyspace
from swarm.telemetry.names import FIGURES, SECONDS

_WORKER_SECONDS = 60.0


@dataclass(frozen=True)
class Sample:
    """One figure with its labels, in the order of the table; for a histogram, the sum and the count of each bucket."""

    figure: str
    labels: tuple[str, ...]
    value: float
    buckets: tuple[int, ...] = ()


def read_metrics(keyspace: Keyspace) -> list[Sample]:
    """Read all figures, in two round trips. Raises `redis.RedisError`."""
    key, now = keyspace.key, keyspace.now()
    with keyspace.client.pipeline(transaction=False) as pipeline:
        pipeline.hgetall(key("telemetry"))
        pipeline.hgetall(key("totals"))
        pipeline.zcard(key("leases"))
        pipeline.zcard(key("ready"))
        pipeline.zrange(key("ready"), 0, 0, withscores=True)
        pipeline.zrange(key("turns"), 0, -1)
        pipeline.zcard(key("aside"))
        pipeline.zcard(key("questions"))
        pipeline.zrange(key("questions"), 0, 0, withscores=True)
        pipeline.hvals(key("slots"))
        pipeline.get(key("telemetry", "read"))
        pipeline.info("memory")
        counted, totals, running, ready, oldest, turns, aside, asked, first, slots, read, memory = pipeline.execute()
        for job_id in turns:
            pipeline.zcard(key("job", job_id, "line"))
        in_line = sum(pipeline.execute()) if turns else 0
    most = int(memory.get("maxmemory", 0))
    gauges = {
        ("now", "running"): running,
        ("now", "ready"): ready + in_line,
        ("oldest",): max(0.0, now - oldest[0][1]) if oldest else 0.0,
        ("aside",): aside,
        ("questions",): asked,
        ("question_age",): max(0.0, now - first[0][1]) if first else 0.0,
        ("workers",): len(slots),
        ("processes",): sum(map(int, slots)),
        ("lag",): max(0.0, now - float(read)) if read else 0.0,
        ("redis_memory",): int(memory["used_memory"]) / most if most else 0.0,
        ("redis_safe",): float(memory.get("maxmemory_policy") == "noeviction"),
    }
    found = [Sample(name, tuple(labels), float(value)) for (name, *labels), value in gauges.items()]
    return [*found, *read_totals(totals), *read_counted(counted)]


def read_totals(totals: Mapping[str, str]) -> Iterable[Sample]:
    """Convert the counts of steps to samples. Pure."""
    for name in ("jobs", "agents", "turns", "rescued"):
        yield Sample(name, (), int(totals.get(name, 0)))
    for state in sorted(TERMINAL_STATES):
        yield Sample("ended", (state,), int(totals.get(f"ended_{state}", 0)))


def read_counted(counted: Mapping[str, str]) -> Iterable[Sample]:
    """Convert the counts from journals to samples. Pure. Figures of a newer version are left out."""
    histograms: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for key, value in counted.items():
        name, *labels = key.split("|")
        if name not in FIGURES:
            continue
        if FIGURES[name].kind == "histogram":
            histograms[name, labels[0]][labels[1]] = int(value)
        else:
            yield Sample(name, tuple(labels), int(value) / NANO if name in ("cost", "estimated") else int(value))
    for (name, label), found in histograms.items():
        buckets = tuple(found.get(str(place), 0) for place in range(len(SECONDS) + 1))
        yield Sample(name, (label,), found.get("sum", 0) / 1000, buckets)
