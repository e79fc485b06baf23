"""The rehearsal server in a process of its own, so that its work is on neither side of a comparison."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def serve(scenario: str = "tree") -> Iterator[str]:
    """Serve a scenario; yields its URL."""
    argv = [sys.executable, "-m", "swarm", "rehearse", scenario]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            if found is None:
                raise RuntimeError(f"the rehearsal server did not start: {line!r}")
            yield found[0]
        finally:
            process.terminate()
