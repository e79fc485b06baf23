"""What belongs to a process of the stack.

Tests of swarm/local/records.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from swarm.local.records import ProcessRecord


def test_whoever_ends_a_worker_that_started_it_does_not_end_itself(tmp_path: Path) -> None:
    parent = psutil.Process(os.getppid())
    record = ProcessRecord(
        kind="worker",
        id="a",
        pid=parent.pid,
        created=parent.create_time(),
        log=tmp_path / "log",
        ready_file=tmp_path / "ready",
    )
    family = record.family()
    assert parent in family and psutil.Process() not in family
