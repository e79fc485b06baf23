"""Counts of what operations cost, held to the budgets in `budgets.toml`: calls, Redis commands and bytes, modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from argparse import Namespace
from collections.abc import Container, Mapping
from importlib.metadata import version
from pathlib import Path

from bench.measure import Report

ROOT = Path(__file__).parents[1]
BUDGETS = Path(__file__).with_name("budgets.toml")
TOLERANCE = 0.02
"""How far a count may be from its budget. Below it, too: a loose budget would let a regression pass."""
ACCEPT = "python -m bench counts --accept"
LIBRARIES = (
    *("anthropic", "celery", "click", "h11", "httpcore2", "httpx2", "kombu", "pydantic", "pydantic-core"),
    *("pydantic-settings", "PyYAML", "redis", "rich", "typer"),
)
"""Their functions run in the counted operations, so their versions change the counts."""
FIGURES = {
    "own_calls": "calls of the project's functions",
    "library_calls": "calls of libraries' functions",
    "builtin_calls": "calls of built-in functions",
    "system_calls": "calls of the operating system",
    "redis_commands": "commands to Redis",
    "step_commands": "commands in Redis' steps",
    "redis_bytes_in": "bytes to Redis",
    "redis_bytes_out": "bytes from Redis",
    "memory_bytes": "bytes of memory",
    "own_modules": "modules of the project",
    "modules": "modules",
}
OF_LIBRARIES = {"library_calls", "builtin_calls", "system_calls", "memory_bytes", "modules"}
"""Figures that other versions of libraries change without a change of the project."""
_HEAD = f"""# What each operation costs. CI fails if a count is more than {TOLERANCE:.0%} above or below its figure.
# `{ACCEPT}` writes this file.
"""

Rows = Mapping[str, Mapping[str, float]]
"""Counts by row and figure."""


def measure(*rows: str, root: Path = ROOT) -> Rows:
    """Count these rows, or all, of the project in this folder, in a process whose surroundings are the same everywhere."""
    with tempfile.TemporaryDirectory(prefix="swarm-c-", dir="/tmp") as home:
        surroundings = {"HOME": home, "TMPDIR": "/tmp", "PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        argv = [sys.executable, "-m", "bench.counting", *rows]
        ran = subprocess.run(argv, cwd=root, env=surroundings, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"the operations could not be counted:\n{ran.stderr[-3000:]}")
    found: Rows = json.loads(ran.stdout.splitlines()[-1])
    return found


def versions() -> dict[str, str]:
    """The versions that the counts depend on: Python's first two numbers, and the libraries'."""
    return {"python": "{}.{}".format(*sys.version_info), **{name: version(name) for name in LIBRARIES}}


def read_budgets(path: Path = BUDGETS) -> tuple[dict[str, str], Rows]:
    """Return the versions with which the budgets were accepted, and the budgets."""
    table = tomllib.loads(path.read_text())
    return table.pop("versions"), table


def write_budgets(path: Path, accepted: Rows) -> None:
    """Make these counts the budgets."""
    tables = {"versions": {name: f'"{text}"' for name, text in versions().items()}, **accepted}
    parts = [
        "".join([f"\n[{row}]\n", *(f"{name} = {value}\n" for name, value in of.items())]) for row, of in tables.items()
    ]
    path.write_text(_HEAD + "".join(parts))


def find_other_versions(accepted: Mapping[str, str]) -> str:
    """Describe the versions that are not those of the budgets; empty if all are."""
    return ", ".join(
        f"{name} {text} instead of {accepted.get(name)}"
        for name, text in versions().items()
        if accepted.get(name) != text
    )


def judge(found: Rows, budgets: Rows, *, leave: Container[str] = ()) -> list[str]:
    """Describe each count that is too far from its budget. The figures in `leave` are not compared."""
    return [
        f"{row}: {count:g} {FIGURES[figure]}, {fault}"
        for row, counts in found.items()
        for figure, count in counts.items()
        if figure not in leave and (fault := _find_fault(count, budgets.get(row, {}).get(figure)))
    ]


def _find_fault(count: float, budget: float | None) -> str:
    if budget is None:
        return f"and no budget for it. Make one: {ACCEPT}"
    share = f"{abs(count - budget) / (budget or 1):.1%}"
    if count > budget * (1 + TOLERANCE):
        return f"{share} above the budget of {budget:g}. Make it cheaper, or accept it on purpose: {ACCEPT}"
    if count < budget * (1 - TOLERANCE):
        return f"{share} below the budget of {budget:g}. Lower the budget, so that it stays cheap: {ACCEPT}"
    return ""


def run(report: Report, chosen: Namespace) -> None:
    """Compare all counts with their budgets, or make them the budgets."""
    found = measure()
    if chosen.accept:
        write_budgets(BUDGETS, found)
    accepted, budgets = read_budgets()
    if others := find_other_versions(accepted):
        report.note(f"not the versions of the budgets: {others}")
    for row, counts in found.items():
        report.note(f"{row}: " + ", ".join(f"{count:g} {FIGURES[figure]}" for figure, count in counts.items()))
        report.figures |= {f"{row} {figure}": count for figure, count in counts.items()}
    for sentence in judge(found, budgets):
        report.missed.append(sentence.partition(",")[0])
        report.note(sentence)
