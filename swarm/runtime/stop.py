"""How a running segment learns that it must stop where it is, and where it may be torn apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from swarm.errors import Interrupted


@dataclass
class Stop:
    """How a running segment learns that it must stop where it is."""

    agent_id: str
    requested: bool = False
    event: threading.Event = field(default_factory=threading.Event)
    """Set by other threads only: a signal may come while its lock is held."""
    _waiting: bool = False

    def check(self) -> None:
        """Raise `Interrupted` once the agent must stop."""
        if self.requested:
            raise Interrupted(f"agent {self.agent_id} was told to stop")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A stretch that a stop signal may tear apart. Anywhere else it might leave a lock held, and hang the process for ever."""
        self._waiting = True
        try:
            self.check()
            yield
        finally:
            self._waiting = False

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """A stretch within `waiting` that stays whole."""
        before, self._waiting = self._waiting, False
        try:
            yield
        finally:
            self._waiting = before
        self.check()

    def on_signal(self) -> None:
        """Called by the signal's handler, on the thread that runs the agent."""
        self.requested = True
        if self._waiting:
            # Once is enough: a second signal must not interrupt the first one's way out.
            self._waiting = False
            self.check()
