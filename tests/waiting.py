"""The one way to wait in a test: for something to become true, up to a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(what: str, probe: Callable[[], Found | None], seconds: float = 60.0) -> Found:
    """Wait until `probe` returns something true, and return that; fails naming `what`."""
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen within {seconds} s: {what}")
        time.sleep(0.02)
    return found
