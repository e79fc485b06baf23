"""Signals as exceptions, so that a command stops the processes it started before it ends.

Guarantee: at most one exception is raised per `arm`, so a second Ctrl-C cannot cut the cleanup short.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """The system asked this command to end (SIGTERM, or SIGHUP when its terminal closes)."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"signal {number}")


class Interrupts:
    """Turns signals into exceptions of the main thread, inside the `with` block.

    SIGINT raises `KeyboardInterrupt`, SIGTERM and SIGHUP raise `Terminated`.
    """

    def __init__(self) -> None:
        self._armed = True
        self._held = False
        self._pending: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *failure: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def arm(self) -> None:
        """Raise at the next signal."""
        self._armed = True

    def disarm(self) -> None:
        """Ignore signals from now on."""
        self._armed = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delay a signal until the end of the block, and raise there."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        number, self._pending = self._pending, None
        if number is not None:
            self._raise(number)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._pending = number
        else:
            self._raise(number)

    def _raise(self, number: int) -> None:
        if not self._armed:
            return
        self._armed = False
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated(number)
