"""Servers of the HTTP API as people start them, for as long as a test needs them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.fleet import Fleet
from tests.waiting import wait_for

SWARM_SERVE = ("swarm", "serve")


@contextmanager
def serving(fleet: Fleet, *module: str, port: int = 0, cwd: Path | None = None) -> Iterator[str]:
    """Run a module (default: `swarm serve`) that serves the API of this fleet; yields its URL."""
    with NamedTemporaryFile("w+", dir=fleet.folder, suffix=".log") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *(module or SWARM_SERVE), "--port", str(port)],
            cwd=cwd,
            env={**fleet.environment(), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        told = Path(log.name)
        try:
            found = wait_for("it serves", lambda: re.search(r"running on (http://\S+)", told.read_text()))
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, -signal.SIGTERM), told.read_text()
