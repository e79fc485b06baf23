"""`swarm --help`, against importing the libraries that draw it."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from argparse import Namespace

from bench.measure import Report, alternate

ROUNDS = 15
COMMAND = "from swarm.cli import main; main()"
"""What the installed script `swarm` runs."""


def run(report: Report, chosen: Namespace) -> None:
    """Wall time of whole processes, in turns."""

    def timed(*arguments: str) -> float:
        began = time.monotonic()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - began

    ours, theirs = alternate(ROUNDS, lambda: timed("-c", COMMAND, "--help"), lambda: timed("-c", "import typer, rich"))
    report.note(
        f"swarm --help {statistics.median(ours) * 1e3:.0f} ms, imports {statistics.median(theirs) * 1e3:.0f} ms"
    )
    report.figure("help", statistics.median(ours) / statistics.median(theirs), "×", target=1.1)
