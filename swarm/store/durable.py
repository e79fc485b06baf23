"""Waits until writes are on the server's disk, if the settings require it.

Redis answers before its append-only file has reached the disk, unless `appendfsync` is `always`. A power cut may therefore lose the
last second, including effects that must not be repeated. `WAITAOF` waits for the disk only where it matters. All threads of a process
that wait meanwhile share the next wait.
"""

from __future__ import annotations

import threading
from typing import Any

import redis

from swarm.core.log import EventLog
from swarm.core.settings import Durability
from swarm.store.keyspace import Keyspace
from swarm.store.outage import is_away

log = EventLog("swarm.durable")
_WAIT_MILLISECONDS = 1_500
"""Shorter than a command's timeout."""


class Disk:
    """The disk of the server behind a client. Thread-safe."""

    def __init__(self, keyspace: Keyspace, level: Durability) -> None:
        self._keyspace, self.level = keyspace, level
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._said = False

    def holds(self, *, effect: bool) -> bool:
        """Whether to wait before running an effect, or (without `effect`) after a paid reply."""
        return self.level == "all" or (effect and self.level == "effects")

    def explain_lack(self) -> str | None:
        """The reason why the required wait is impossible; None if it is possible, or not required."""
        if self.level == "off":
            return None
        try:
            self._keyspace.client.waitaof(1, 0, 1)
        except redis.ResponseError as error:
            if is_away(error):
                return None
            return (
                f"SWARM_DURABILITY={self.level} needs WAITAOF, which this server does not offer ({error}). Use Redis 7.2 or newer, or "
                "Valkey, with `appendonly yes`"
            )
        return None

    def wait(self, keyspace: Keyspace | None = None) -> None:
        """Return once all writes of this process are on the disk; return at once, with a log entry, if the server cannot report it."""
        with self._changed:
            # A current round may have begun before the last write.
            mine = self._begun + 1
            while self._done < mine and self._begun > self._done:
                self._changed.wait()
            if self._done >= mine:
                return
            self._begun += 1
        synced = False
        try:
            self._sync((keyspace or self._keyspace).client)
            synced = True
        finally:
            with self._changed:
                if synced:
                    self._done = self._begun
                else:
                    self._begun = self._done
                self._changed.notify_all()

    def _sync(self, client: Any) -> None:
        while True:
            # WAITAOF counts the writes of its own connection, so there must be one, after those of the others.
            pipeline = client.pipeline(transaction=False)
            pipeline.set(self._keyspace.key("synced"), 1)
            pipeline.waitaof(1, 0, _WAIT_MILLISECONDS)
            try:
                if pipeline.execute()[1][0] >= 1:
                    return
            except redis.ResponseError as error:
                if is_away(error):
                    raise
                if not self._said:
                    self._said = True
                    log.error("durability.missing", error=error)
                return
