"""Redis streams by name: a job's events, a journal, a mailbox, a map's results, the feed of all jobs, their ends.

A name is the key's parts without the swarm's prefix, for example ("events", "job-1").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.core.settings import Settings
from swarm.mailbox import position_of
from swarm.store.connection import SOCKET_TIMEOUT_SECONDS, connect_async
from swarm.store.keyspace import Keyspace

Name = tuple[str, ...]
Entries = list[tuple[str, dict[str, str]]]
FEED: Name = ("feed",)
ENDS: Name = ("ends",)
_PAGE = 500


class StreamStore:
    """The streams of a swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def after(self, name: Name, cursor: str, count: int | None = _PAGE) -> Entries:
        """The first entries after a cursor; None: all of them."""
        return list(self._keyspace.client.xrange(self._keyspace.key(*name), f"({cursor}", "+", count=count))

    def wait(self, name: Name, cursor: str, seconds: float) -> Entries:
        """The first entries after a cursor; if there are none, wait for them up to `seconds`, at most some seconds."""
        # 0 would block for ever, and even one millisecond lasts until the server's next tick, up to 100 ms.
        block = max(1, int(min(seconds, SOCKET_TIMEOUT_SECONDS / 2) * 1000)) if seconds > 0 else None
        found = self._keyspace.client.xread({self._keyspace.key(*name): cursor}, count=_PAGE, block=block)
        return [(entry_id, dict(fields)) for _, entries in found or () for entry_id, fields in entries]

    def last(self, name: Name) -> str:
        """The cursor of the last entry."""
        found = self._keyspace.client.xrevrange(self._keyspace.key(*name), count=1)
        return str(found[0][0]) if found else "0-0"

    def first(self, name: Name) -> str:
        """The cursor of the first remaining entry; empty if there is none."""
        found = self._keyspace.client.xrange(self._keyspace.key(*name), count=1)
        return str(found[0][0]) if found else ""

    def is_behind(self, name: Name, cursor: str) -> bool:
        """Whether the stream ends before the cursor, so entries were lost."""
        return bool(cursor) and position_of(cursor) > position_of(self.last(name))

    def is_lost(self, name: Name, cursor: str) -> bool:
        """Whether a reader cannot continue from the cursor: the stream has lost its end, or entries after the cursor were trimmed."""
        if not cursor:
            return False
        if self.is_behind(name, cursor):
            return True
        first = self._keyspace.client.xrange(self._keyspace.key(*name), count=1)
        return (
            bool(first) and position_of(first[0][0]) > position_of(cursor) and first[0][1].get("kind") != "job_started"
        )


class AsyncStreams:
    """Streams for asyncio. Each reader waits on a connection of its own."""

    def __init__(self, settings: Settings, *, block_seconds: float) -> None:
        """`block_seconds` is the longest wait of a read."""
        self._client: Any = connect_async(settings, timeout_seconds=2 * block_seconds)
        self._prefix = settings.key_prefix

    async def wait(self, cursors: Mapping[Name, str], seconds: float, count: int = _PAGE) -> dict[Name, Entries]:
        """The first entries of each stream after its cursor; if there are none at all, wait for them up to `seconds`."""
        names = {":".join((self._prefix, *name)): name for name in cursors}
        block = max(1, int(seconds * 1000)) if seconds > 0 else None
        found = await self._client.xread({key: cursors[name] for key, name in names.items()}, count=count, block=block)
        return {names[key]: entries for key, entries in found or ()}

    async def want_words(self, agent_id: str, seconds: float) -> None:
        """Ask the agent's worker to pass on its model's words for `seconds`."""
        await self._client.set(f"{self._prefix}:watch:{agent_id}", "1", ex=seconds)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
