"""The live updates of one tab of the page: one blocking read of a few streams, and patches made of new entries.

Guarantees: a tab that continues from the cursors of its last patch misses nothing, or is notified of a loss (`reset`).
Repeated patches are harmless. Nothing is kept for a tab between its connections, so any Flower can continue it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from swarm.client.swarm import Swarm
from swarm.store.outage import REDIS_ERRORS, is_away
from swarm.store.streams import AsyncStreams
from swarm.web.patches import Cursors, Viewed, WatchedParts, find_losses, make_patch

Result = TypeVar("Result")
BLOCK_SECONDS = 5.0
"""Longest wait of one read; the client's timeout must be longer."""
_COMMENT_SECONDS = 15.0
_CHECK_SECONDS = 15.0
_BUSY_SECONDS = 1.0
"""Interval of looking at working agents that report no events."""
_FLEET_SECONDS = 2.0
_AWAY_SECONDS = 0.5
_LEAST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 0.01, 0.2
_PAUSE_SHARE = 2
"""Factor of the pause after a patch: at least this times the seconds that the patch took."""
_WATCH_SECONDS, _RENEW_SECONDS = 10, 3.0
_AT_ONCE = 200
"""Most entries of one stream in one read."""


@dataclass(frozen=True)
class TabUpdate:
    """One update for a tab: an event of the stream, or only a sign of life."""

    event: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    cursors: str = ""


def encode_told(told: TabUpdate) -> str:
    """Encode an update as sent: https://html.spec.whatwg.org/multipage/server-sent-events.html."""
    if not told.event:
        return ": still here\n\n"
    # JSON has no line breaks, which would end the event.
    return f"id: {told.cursors}\nevent: {told.event}\ndata: {json.dumps(told.data)}\n\n"


class TabWatch:
    """One tab's watch. `run` calls a function on a thread, because a read of many records would block other tabs."""

    def __init__(
        self,
        swarm: Swarm,
        streams: AsyncStreams,
        wanted: WatchedParts,
        cursors: Cursors,
        run: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._swarm, self._streams, self._run = swarm, streams, run
        self._viewed = Viewed(wanted, cursors)
        self._looked_at = self._renewed_at = 0.0
        self._told_at = self._checked_at = time.monotonic()
        self._away = False

    async def follow(self) -> AsyncGenerator[TabUpdate, None]:
        """Yield updates without end. Raises all errors except an outage of Redis."""
        began = False
        while True:
            try:
                if not began:
                    async for told in self._begin():
                        yield told
                    began = True
                async for told in self._go_on():
                    yield told
            except REDIS_ERRORS as error:
                if not is_away(error):
                    raise
                if not self._away:
                    self._away = True
                    yield self._tell("away", {"since": time.time()})
                await asyncio.sleep(_AWAY_SECONDS)
                # Data may have been lost in the outage.
                began = False

    async def _begin(self) -> AsyncIterator[TabUpdate]:
        losses = await self._run(lambda: find_losses(self._swarm, self._viewed))
        now = await self._run(self._swarm.store.now)
        if self._away:
            self._away = False
            yield self._tell("back", {})
        yield self._tell("hello", {"now": now, "at": self._viewed.cursors.shown()})
        for told in self._tell_losses(losses):
            yield told

    async def _go_on(self) -> AsyncIterator[TabUpdate]:
        await self._renew()
        found = await self._read()
        look = time.monotonic() - self._looked_at >= self._look_seconds()
        if found or look:
            began = time.monotonic()
            self._looked_at = began if look else self._looked_at
            patch = await self._run(lambda: make_patch(self._swarm, self._viewed, found, look=look))
            if patch:
                yield self._tell("patch", patch)
            now = time.monotonic()
            pause = min(max(_PAUSE_SHARE * (now - began), _LEAST_PAUSE_SECONDS), _MOST_PAUSE_SECONDS)
            await asyncio.sleep(pause)
        if time.monotonic() - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = time.monotonic()
            for told in self._tell_losses(await self._run(lambda: find_losses(self._swarm, self._viewed))):
                yield told
        if time.monotonic() - self._told_at >= _COMMENT_SECONDS:
            yield self._tell("", {})

    async def _read(self) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """Wait for new entries until it is time to look; return them by the letters of their cursors."""
        streams = self._viewed.streams()
        wait = min(BLOCK_SECONDS, max(0.001, self._looked_at + self._look_seconds() - time.monotonic()))
        if not streams:
            await asyncio.sleep(wait)
            return {}
        found = await self._streams.wait(dict(streams.values()), wait, _AT_ONCE)
        return {outgoing: found[name] for outgoing, (name, _) in streams.items() if name in found}

    def _look_seconds(self) -> float:
        if not self._viewed.wanted.job_id:
            return _FLEET_SECONDS
        return _BUSY_SECONDS if self._viewed.busy else BLOCK_SECONDS

    async def _renew(self) -> None:
        """Notify the worker that a tab wants the agent's words as they arrive."""
        agent_id = self._viewed.wanted.agent_id
        if self._viewed.wanted.words and agent_id and time.monotonic() - self._renewed_at >= _RENEW_SECONDS:
            await self._streams.want_words(agent_id, _WATCH_SECONDS)
            self._renewed_at = time.monotonic()

    def _tell_losses(self, losses: dict[str, list[str]]) -> list[TabUpdate]:
        told = [self._tell("gone", {"what": what}) for what in losses["gone"]]
        if losses["reset"]:
            why = "Redis no longer has what came between"
            told.append(self._tell("reset", {"what": losses["reset"], "why": why}))
        return told

    def _tell(self, event: str, data: dict[str, Any]) -> TabUpdate:
        self._told_at = time.monotonic()
        return TabUpdate(event, data, self._viewed.cursors.text() if event else "")
