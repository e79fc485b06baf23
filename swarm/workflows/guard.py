"""Refuse what a replay could not repeat, while a native program runs: clocks, random numbers, threads, files, sockets, processes.

It watches one thread's calls of functions in C, so it holds in libraries, too. It is no sandbox: the program is trusted as own tools are.
"""

from __future__ import annotations

import _thread
import datetime
import gc
import io
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from swarm.core.errors import NotRepeatable

_BUILTIN = type(time.time)
_CLOCKS = {
    time.time,
    time.time_ns,
    time.monotonic,
    time.monotonic_ns,
    time.perf_counter,
    time.perf_counter_ns,
    time.process_time,
}
_REMEDIES: dict[Callable[..., Any], str] = {
    **dict.fromkeys(_CLOCKS, "use flow.now()"),
    time.sleep: "use `await asyncio.sleep(seconds)` or flow.sleep_until()",
    os.urandom: "use flow.random or flow.uuid()",
    io.open: "use an agent or flow.call()",
    _thread.start_new_thread: "use an agent or flow.call()",
}
_OUTSIDE = {"posix", "nt", "_socket", "_posixsubprocess", "select", "_ssl"}
_HARMLESS = {"fspath", "getpid", "_path_splitroot", "_path_normpath", "sched_yield"}
_OF_CLOCK = {"now", "utcnow", "today"}


@contextmanager
def refusing() -> Iterator[None]:
    """Refuse such calls in this thread: `NotRepeatable` is raised where one is made, and again at the end, whatever the program does."""
    before, guard = sys.getprofile(), _CallWatch()
    # A collection would run others' clean-up code in this thread.
    collects = gc.isenabled()
    gc.disable()
    sys.setprofile(guard.watch)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    if guard.refused is not None:
        raise guard.refused


class _CallWatch:
    """The watch over one thread. It ends with the first refusal, as Python ends what raises there."""

    def __init__(self) -> None:
        self.refused: NotRepeatable | None = None

    def watch(self, frame: FrameType, event: str, function: Any) -> None:
        if event != "c_call" or frame.f_code.co_filename.startswith("<frozen "):  # imports read files
            return
        if (found := _find_fault(function)) is not None:
            self.refused = NotRepeatable(*found)
            raise self.refused


def _find_fault(function: Any) -> tuple[str, str] | None:
    """Return what a function in C is and what to use instead, if a program may not call it."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        of_clock = issubclass(owner, datetime.date) and function.__name__ in _OF_CLOCK
        return (f"{owner.__name__}.{function.__name__}", "use flow.now()") if of_clock else None
    if owner is random._inst:
        return f"random.{function.__name__}", "use flow.random"
    if not isinstance(function, _BUILTIN):
        return None
    remedy = _REMEDIES.get(function)
    module = getattr(owner, "__name__", "") or type(owner).__module__
    if remedy is None and module in _OUTSIDE and function.__name__ not in _HARMLESS:
        remedy = "use an agent or flow.call()"
    return None if remedy is None else (f"{module}.{function.__name__}", remedy)
