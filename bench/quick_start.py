"""`swarm run` without a stack, and again with what the first one kept: Enter → first request, last reply → prompt back."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from bench.measure import Report, alternate
from bench.neutral import Neutral, neutral

ROUNDS = 3


def run(report: Report, chosen: Namespace) -> None:
    """Whole commands, as a shell starts them; the baseline is a process that imports the SDK and does nothing."""
    first: dict[str, list[float]] = {"cold": [], "kept": []}
    back: dict[str, list[float]] = {"cold": [], "kept": []}
    with neutral() as server, tempfile.TemporaryDirectory() as folder:
        environment, workspace = _environment(Path(folder), server), Path(folder) / "work"
        workspace.mkdir()

        def swarm(kind: str) -> float:
            began = time.time()
            _command(environment, "run", "-q", "-w", str(workspace), "TREE depth=0 steps=0")
            ended, tally = time.time(), server.tally()
            first[kind].append(tally.first - began)
            back[kind].append(ended - tally.first - tally.seconds)
            return ended - began

        def cold_then_kept() -> float:
            swarm("cold")
            swarm("kept")
            _command(environment, "down")
            return 0.0

        def sdk() -> float:
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", "import anthropic"], check=True)
            return time.monotonic() - began

        _, imports = alternate(ROUNDS, cold_then_kept, sdk)
    report.note(f"importing the SDK alone: {statistics.median(imports):.2f} s")
    for kind, target in (("cold", 2.5), ("kept", 1.0)):
        report.figure(f"quick_start, {kind}: first request after", statistics.median(first[kind]), " s", target=target)
        report.figure(f"quick_start, {kind}: prompt back after", statistics.median(back[kind]), " s", target=0.5)


def _environment(folder: Path, server: Neutral) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SWARM_", "ANTHROPIC_"))}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "SWARM_STATE_DIR": str(folder / "state"),
        "SWARM_BASE_URL": server.url,
    }


def _command(environment: dict[str, str], *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "swarm", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        check=True,
    )
