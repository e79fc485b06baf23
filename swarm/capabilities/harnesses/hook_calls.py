"""Hooks of the program in the box that wait for their answers, until they have them or the run ends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class HookCall(NamedTuple):
    """A hook of the program, which waits for its answer; None says that there will be none."""

    told: dict[str, Any]
    answer: queue.SimpleQueue[dict[str, Any] | None]


class HookCalls:
    """The waiting hooks of one run."""

    def __init__(self, hear: Callable[[HookCall], None]) -> None:
        """`hear` is called with each hook, on the thread that serves it."""
        self._hear = hear
        self._open: dict[int, HookCall] = {}
        """Waiting hooks by the identity of their input."""
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, told: dict[str, Any]) -> dict[str, Any]:
        """Wait for the answer to a hook. Raises `ConnectionError` once the run has ended."""
        call = HookCall(told, queue.SimpleQueue())
        with self._lock:
            if self._closed:
                raise ConnectionError("the run has ended")
            self._open[id(told)] = call
        self._hear(call)
        answer = call.answer.get()
        if answer is None:
            raise ConnectionError("the run has ended")
        return answer

    def answer(self, told: dict[str, Any], answer: dict[str, Any]) -> None:
        """Answer a hook, once."""
        with self._lock:
            call = self._open.pop(id(told), None)
        if call is not None:
            call.answer.put(answer)

    def close(self) -> None:
        """End all waits, and those of later hooks."""
        with self._lock:
            self._closed, left, self._open = True, list(self._open.values()), {}
        for call in left:
            call.answer.put(None)
