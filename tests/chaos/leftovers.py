"""What is left of a fleet: processes that should be gone, and what its workers complained of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.fleet import Worker

_LINE = re.compile(r": (ERROR|CRITICAL)/\S+\] (.*)")
_VARYING = re.compile(r"\S*/\S+|[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-f]+|\d+")
EXPECTED = ("agent.quarantined", "agent.failed", "worker.unfit")
"""Errors that a worker should tell of here: about an agent, or that it has no key, for it serves rehearsals only."""


def processes_in(folder: Path) -> list[psutil.Process]:
    """The living processes that work in this folder: a fleet's Redis, workers, pools and shells all do."""
    found = []
    for process in psutil.process_iter():
        try:
            # A folder that was removed meanwhile still begins the path that the system reports.
            if process.cwd().startswith(str(folder)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def describe(processes: Sequence[psutil.Process]) -> list[str]:
    """The processes as a message may name them."""
    lines = []
    for process in processes:
        try:
            lines.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        except psutil.Error:
            continue
    return lines


def errors_of(workers: Sequence[Worker]) -> dict[str, int]:
    """What they wrote at the levels of errors, without what differs from line to line → how often."""
    found: Counter[str] = Counter()
    for worker in workers:
        for _, text in _LINE.findall(worker.text()):
            if not text.startswith(EXPECTED):
                found[_VARYING.sub("…", text)[:120]] += 1
    return dict(found)


def broke(errors: dict[str, int]) -> list[str]:
    """Those that are a fault of a worker's own, whatever was done to it."""
    return [text for text in errors if ".broke " in text or "Unrecoverable" in text]
