"""Measuring and printing: quantiles, alternating runs, figures with their targets."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Report:
    """Prints figures as they come, keeps them, and remembers which missed their target."""

    missed: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Print a figure without a target."""
        print(f"  {text}", flush=True)

    def figure(self, name: str, value: float, unit: str, *, target: float) -> None:
        """Print a figure that must not be above its target."""
        self.figures[name] = value
        ok = value <= target
        if not ok:
            self.missed.append(name)
        print(f"  {name}: {value:.2f}{unit}  (target ≤ {target:g}{unit}: {'met' if ok else 'MISSED'})", flush=True)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: Sequence[float], unit: str, scale: float = 1.0) -> str:
    """p50, p99 and the extremes, for a line of text."""
    found = [value * scale for value in values]
    return (
        f"p50 {statistics.median(found):.2f}{unit}, p99 {quantile(found, 0.99):.2f}{unit}, "
        f"min {min(found):.2f}{unit}, max {max(found):.2f}{unit}, n={len(found)}"
    )


def alternate(rounds: int, *measured: Callable[[], float]) -> list[list[float]]:
    """Measure several things in turns, so that a busy neighbour hits all of them alike."""
    found: list[list[float]] = [[] for _ in measured]
    for _ in range(rounds):
        for values, measure in zip(found, measured, strict=True):
            values.append(measure())
    return found
