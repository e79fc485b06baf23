"""The one file that a run writes: what was done, on what, and what came of it; and the same for people."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.section import Section

FORMAT = 1
TOTALS = (
    "jobs",
    "agents",
    "messages",
    "calls",
    "effects",
    "lost",
    "doubled",
    "reordered",
    "interrupted",
    "rescued",
    "handed_over",
)
_REPOSITORY = Path(__file__).parents[2]
_LIBRARIES = ("celery", "kombu", "billiard", "redis")


class Report:
    """A run's report, written anew after each section, so that a run that is cut off leaves what it has."""

    def __init__(self, path: Path, *, seed: int, minutes: float, lacking: Mapping[str, str]) -> None:
        self._path = path
        self._head = {
            "format": FORMAT,
            "seed": seed,
            "minutes": minutes,
            **_commit(),
            "machine": _machine(),
            "load_before": _load(),
        }
        self._lacking = dict(lacking)
        self._sections: list[dict[str, Any]] = []

    def add(self, section: Section) -> None:
        """Take in a section, and write the file."""
        self._sections.append(section.as_json())
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self.as_json(), indent=1) + "\n")
        self._path.with_suffix(".md").write_text(render(self.as_json()))

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        blows: Counter[str] = Counter()
        for section in self._sections:
            blows.update(section["blows"])
        return {
            **self._head,
            "load_after": _load(),
            "held": all(section["held"] for section in self._sections),
            "blows": dict(blows),
            **{name: sum(section[name] for section in self._sections) for name in TOTALS},
            "not_played": self._lacking,
            "sections": self._sections,
        }


def _commit() -> dict[str, Any]:
    def git(*words: str) -> str:
        ran = subprocess.run(["git", *words], cwd=_REPOSITORY, capture_output=True, text=True)
        return ran.stdout.strip() if ran.returncode == 0 else ""

    return {"commit": git("rev-parse", "HEAD") or "unknown", "uncommitted_changes": bool(git("status", "--porcelain"))}


def _machine() -> dict[str, Any]:
    return {
        "processors": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }


def _load() -> list[float]:
    return [round(load, 1) for load in os.getloadavg()]


def render(report: Mapping[str, Any]) -> str:
    """The report for people, as Markdown."""
    machine = report["machine"]
    changed = " and changes that are not committed" if report["uncommitted_changes"] else ""
    parts = [
        f"# Chaos report: every promise {'held' if report['held'] else 'did NOT hold'}",
        f"Seed {report['seed']}, commit {report['commit'][:12]}{changed}. {machine['processors']} processors, "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, Python {machine['python']}, "
        + ", ".join(f"{name} {machine[name]}" for name in _LIBRARIES)
        + f"; load {report['load_before'][0]} before, {report['load_after'][0]} after.",
        f"**Lost {report['lost']}, doubled {report['doubled']}, reordered {report['reordered']}** of {report['agents']:,} agents in "
        f"{report['jobs']} jobs, {report['messages']:,} messages, {report['calls']:,} calls, {report['effects']:,} effects, under "
        f"{sum(report['blows'].values())} blows; {report['interrupted']} calls told as interrupted, {report['rescued']} agents rescued, "
        f"{report['handed_over']} handed over.",
        _overview(report["sections"]),
        *(_render_section(section) for section in report["sections"]),
        *(f"`{name}` was not played: {why}." for name, why in report["not_played"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(sections: Sequence[Mapping[str, Any]]) -> str:
    names = (
        "seconds",
        "jobs",
        "agents",
        "messages",
        "effects",
        "lost",
        "doubled",
        "reordered",
        "interrupted",
        "quarantined",
    )
    rows = [["section", "held", "blows", *names]]
    rows += [
        [s["name"], "yes" if s["held"] else "NO", sum(s["blows"].values()), *(s[name] for name in names)]
        for s in sections
    ]
    return _table(rows)


def _render_section(section: Mapping[str, Any]) -> str:
    parts = [
        f"## {section['name']}\n\n{section['what'][:1].upper()}{section['what'][1:]}. {section['redis']}; {section['workers']} workers of "
        f"{section['processes']} ({section['pool']}), {section['seconds']:.0f} s. Blows: "
        + (", ".join(f"{kind} {count}" for kind, count in sorted(section["blows"].items())) or "none")
        + "."
    ]
    if "charges" in section:
        parts.append(
            f"{section['charges']:,} charges; {section['repeats']:,} times a call was delivered again after it had charged."
        )
    spreads = dict(section["recovery_seconds"])
    if section["drain_seconds"]:
        spreads["(a worker's leaving)"] = section["drain_seconds"]
    if spreads:
        rows = [["recovery after", "p50", "p99", "max", "of"]]
        rows += [
            [kind, *(f"{s[name]:.2f} s" for name in ("p50", "p99", "max")), s["of"]] for kind, s in spreads.items()
        ]
        parts.append(_table(rows))
    if section["memory"]:
        rows = [["memory", "slope, MiB/hour", "± error", "mean, MiB", "samples"]]
        rows += [
            [name, f"{m['mib_per_hour']:+.2f}", f"{m['error']:.2f}", f"{m['mean_mib']:.1f}", m["samples"]]
            for name, m in section["memory"].items()
        ]
        parts.append(_table(rows))
    for word in ("faults", "waived"):
        parts += [f"{word}: `{f['kind']}:{f['about']}` {f['where']}: {f['what']}" for f in section[word]]
    parts += [f"complaint: {text}" for text in section["complaints"]]
    return "\n\n".join(parts)


def _table(rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
