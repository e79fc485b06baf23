"""The page's event stream: what one tab watches, as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

from tornado.iostream import StreamClosedError

from swarm.store.streams import AsyncStreams
from swarm.web.failures import BadRequest, TooMany
from swarm.web.handlers import Guarded, on_thread
from swarm.web.patches import Cursors, Wanted, is_cursor
from swarm.web.watching import BLOCK_SECONDS, Watch, encode_told

MOST_STREAMS = 64
MOST_OF_ONE = 12
"""Of one user at one address."""
_RETRY_MILLISECONDS = 1_000
_CURSORS = ("feed", "events", "journal", "mail")
_open: Counter[str] = Counter()
_clients: dict[int, AsyncStreams] = {}


class Stream(Guarded):
    """One tab's stream. The id of each event holds the tab's cursors, so that the browser goes on where it stopped."""

    _task: asyncio.Task[Any] | None = None

    async def get(self) -> None:
        wanted, cursors = self._wanted(), self._cursors()
        who = f"{self.user} {self.request.remote_ip}"
        if _open.total() >= MOST_STREAMS or _open[who] >= MOST_OF_ONE:
            raise TooMany("so many tabs are open that this one gets no events; close some")
        self.set_header("Content-Type", "text/event-stream")
        # A proxy would keep the events until it has many.
        self.set_header("X-Accel-Buffering", "no")
        # Else an event that follows another one soon waits for the browser to acknowledge that, up to 40 ms.
        self.request.connection.stream.set_nodelay(True)
        self._task = asyncio.current_task()
        _open[who] += 1
        try:
            self.write(f"retry: {_RETRY_MILLISECONDS}\n\n")
            await self.flush()
            watch = Watch(self.swarm, self._streams(), wanted, cursors, on_thread)
            async with contextlib.aclosing(watch.follow()) as happening:
                async for told in happening:
                    self.write(encode_told(told))
                    await self.flush()
        except (StreamClosedError, asyncio.CancelledError):
            # The tab is closed.
            pass
        finally:
            _open.subtract([who])
            if not _open[who]:
                del _open[who]

    def on_connection_close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _streams(self) -> AsyncStreams:
        """One client for all tabs; each waits on a connection of its own."""
        key = id(self.swarm)
        if key not in _clients:
            _clients[key] = AsyncStreams(self.swarm.settings, block_seconds=BLOCK_SECONDS)
        return _clients[key]

    def _wanted(self) -> Wanted:
        given = self.query()
        wanted = Wanted(
            jobs=given.get("jobs") == "1",
            job_id=given.get("job") or None,
            agent_id=given.get("agent") or None,
            words=given.get("words") == "1",
        )
        if wanted == Wanted():
            raise BadRequest("say what to watch: jobs=1, job=ID or agent=ID")
        return wanted

    def _cursors(self) -> Cursors:
        if before := self.request.headers.get("Last-Event-ID"):
            return Cursors.read(before)
        given = {name: self.query().get(name, "") for name in _CURSORS}
        for name, cursor in given.items():
            if cursor and not is_cursor(cursor):
                raise BadRequest(f"{name} is no cursor", name)
        return Cursors(**given)
