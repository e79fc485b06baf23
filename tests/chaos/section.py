"""What came of one campaign: a section of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.memory import Slope
from tests.chaos.plan import Plan
from tests.chaos.recovery import Blow, percentile

FIGURES = ("jobs", "agents", "entries", "turns", "calls", "effects", "messages", "pairs", "refused", "interrupted")
"""Those of a verdict that are added up."""
LEDGER_FIGURES = ("charges", "repeats")
"""Of a section with a ledger: calls that were to charge a card, and how often one was delivered again after it had."""
_MOST_SAMPLES = 240


@dataclass
class Section:
    """All that one campaign has found. `add` takes in the verdict of the checker about one job."""

    plan: Plan
    redis: str = ""
    """Which server, and how it was reached."""
    seconds: float = 0.0
    blows: list[Blow] = field(default_factory=list)
    began_at: float = 0.0
    figures: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    quarantined: int = 0
    rescued: int = 0
    handed_over: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)
    """What the checker found."""
    waived: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What the campaign itself saw: a job that did not end, a worker that ended, a process that was left."""
    recovery: dict[str, list[float]] = field(default_factory=dict)
    drains: dict[int, float] = field(default_factory=dict)
    """How long each worker took that was told to leave, by its main process."""
    errors: dict[str, int] = field(default_factory=dict)
    served: set[Path | None] = field(default_factory=set)
    """Which of the plan's releases have run agents."""
    slopes: Mapping[str, Slope] = field(default_factory=dict)
    samples: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    @property
    def held(self) -> bool:
        """Whether every promise was kept."""
        return not self.faults and not self.complaints

    def add(self, verdict: Mapping[str, Any]) -> None:
        """Take in what the checker says about one job."""
        self.figures.update({name: verdict[name] for name in FIGURES})
        self.lost += verdict["lost"]
        self.doubled += verdict["doubled"]
        self.reordered += verdict["reordered"]
        self.quarantined += len(verdict["failed"])
        self.faults += verdict["faults"]
        self.waived += verdict["waived"]

    def add_recoveries(self, found: Mapping[str, Sequence[float]]) -> None:
        """Take in how long the agents of one job needed, by kind of blow."""
        for kind, values in found.items():
            self.recovery.setdefault(kind, []).extend(values)

    def _duration(self, blow: Blow) -> float:
        leaving = self.drains.get(blow.worker_pid or 0) if blow.kind == "drain" else None
        return blow.over_at - blow.at if leaving is None else leaving

    def as_json(self) -> dict[str, Any]:
        """The section as plain data."""
        plan = self.plan
        return {
            "name": plan.name,
            "what": plan.what,
            "redis": self.redis,
            "pool": plan.pool,
            "workers": plan.workers,
            "processes": plan.processes,
            "seed": plan.seed,
            "seconds": round(self.seconds, 1),
            "held": self.held,
            "blows": dict(Counter(blow.kind for blow in self.blows)),
            **{name: self.figures[name] for name in FIGURES},
            **{name: self.figures[name] for name in LEDGER_FIGURES if name in self.figures},
            **{
                name: getattr(self, name)
                for name in ("lost", "doubled", "reordered", "quarantined", "rescued", "handed_over")
            },
            "recovery_seconds": {kind: _spread(values) for kind, values in self.recovery.items() if values},
            "drain_seconds": _spread(list(self.drains.values())) if self.drains else None,
            "memory": {name: asdict(slope) for name, slope in self.slopes.items()},
            "faults": self.faults,
            "waived": self.waived,
            "complaints": self.complaints,
            "errors_logged": self.errors,
            "timeline": [
                {"kind": blow.kind, "at": round(blow.at - self.began_at, 2), "lasted": round(self._duration(blow), 2)}
                for blow in self.blows
            ],
            "memory_samples": {name: _thin(samples) for name, samples in self.samples.items()},
        }


def _spread(values: Sequence[float]) -> dict[str, float]:
    parts = {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "max": max(values)}
    return {**{name: round(value, 3) for name, value in parts.items()}, "of": len(values)}


def _thin(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """So many of them that a curve can be drawn."""
    step = max(1, -(-len(samples) // _MOST_SAMPLES))
    return list(samples[::step])
