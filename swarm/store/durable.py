"""Waiting until what was written is on the server's disk, where the settings ask for it.

Redis answers before its append-only file has reached the disk, unless `appendfsync` is `always`: a power cut may take the last second
with it, and with that second what nobody may do twice. `WAITAOF` waits for the disk only where it matters. Of one process, all who wait
meanwhile share the next wait.
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
"""Less than a command may go unanswered."""


class Disk:
    """The disk of the server behind a client. Thread-safe."""

    def __init__(self, keyspace: Keyspace, level: Durability) -> None:
        self._keyspace, self.level = keyspace, level
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._said = False

    def holds(self, *, effect: bool) -> bool:
        """Whether to wait before an effect is run, or else after a reply that is paid for."""
        return self.level == "all" or (effect and self.level == "effects")

    def explain_lack(self) -> str | None:
        """Why nothing can be waited for although the settings ask for it; None if it can, or need not."""
        if self.level == "off":
            return None
        try:
            self._keyspace.client.waitaof(1, 0, 1)
        except redis.ResponseError as error:
            if is_away(error):
                return None
            return (
                f"SWARM_DURABILITY={self.level} asks for what this server cannot do ({error}): it needs WAITAOF, which Redis 7.2 and "
                "Valkey have, and `appendonly yes`"
            )
        return None

    def wait(self, keyspace: Keyspace | None = None) -> None:
        """Return once all that this process has written is on the disk; at once, said in the log, where the server cannot tell."""
        with self._changed:
            # A round that is under way may have begun before the last of what was written.
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
            # It counts the writes of its own connection, so there must be one, after those of the others.
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
