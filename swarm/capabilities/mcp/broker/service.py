"""The broker's socket: workers' requests in, lines of events out.

A connection carries one request at a time, a line of JSON `{"do": …}`. The answer is one or more lines; only the last has no `progress`.
`key` names a server. One that does not run yet answers `{"unknown": true}`; the worker then sends `start`.

    start  key, launch             → about, run | failed, why
    call   key, ticket, tool, given, seconds, answers?, state?, hold   → progress*, then asked | result | failed, why; each with run
    resources | read uri | prompts | prompt name, given                → result | failed, why
    offer  key, known              → about | same: whether the tools are those of the known offer
    end    job? owner? workspace?  → ended: number of servers
    state                          → servers that run

A worker that hangs up ends its call. A call that asks (`asked` with `held`) is kept for `hold` seconds: a request with its ticket and
`answers` continues it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarm.capabilities.mcp.broker.calls import ASKED, FINAL, Event, ServerCall
from swarm.capabilities.mcp.broker.server_session import CannotStart, ServerSession
from swarm.capabilities.mcp.places import SOCKET

log = logging.getLogger("swarm.mcp")
LINGER_SECONDS = 3.0
"""How long the broker runs without a connected worker."""
EMPTY_SECONDS = 120.0
"""How long the broker runs without a server."""
_LOOK_SECONDS = 0.5
_TRY_AGAIN_SECONDS = 20.0
"""How long a server that failed to start is not started again."""
_MAX_LINE_BYTES = 64 * 1024 * 1024


class Broker:
    """All servers of a host."""

    def __init__(self, folder: Path, idle_seconds: float) -> None:
        self._folder, self._idle_seconds = folder, idle_seconds
        self._servers: dict[str, ServerSession] = {}
        self._failed: dict[str, tuple[float, str]] = {}
        self._connections = 0
        self._endings: set[asyncio.Task[None]] = set()
        self._alone_since = self._empty_since = time.monotonic()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve until no worker or server is left. The caller holds the folder's lock."""
        place = self._folder / SOCKET
        place.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, place, limit=_MAX_LINE_BYTES)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._ended.set)
        while not self._ended.is_set():
            await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _LOOK_SECONDS)
        place.unlink(missing_ok=True)
        server.close()
        await asyncio.gather(self._end(list(self._servers.values())), *self._endings)

    async def _look(self) -> None:
        now = time.monotonic()
        self._failed = {key: failed for key, failed in self._failed.items() if failed[0] > now}
        self._empty_since = now if self._servers else self._empty_since
        done = [one for one in self._servers.values() if one.has_ended and not one.calls]
        idle = [one for one in self._servers.values() if not one.calls and now - one.used_at > self._idle_seconds]
        await self._end([*done, *idle])
        if self._connections or any(one.calls for one in self._servers.values()):
            self._alone_since = now
        elif now - self._alone_since > LINGER_SECONDS:
            self._ended.set()
        if now - self._empty_since > EMPTY_SECONDS:
            # Connected workers start another broker if they need one.
            self._ended.set()

    async def _end(self, servers: list[ServerSession]) -> None:
        for one in servers:
            if self._servers.get(one.key) is one:
                del self._servers[one.key]
        await asyncio.gather(*(one.end() for one in servers))

    # -- one worker ----------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        reading = asyncio.create_task(reader.readline())
        try:
            while line := await reading:
                reading = asyncio.create_task(reader.readline())
                await self._answer(json.loads(line), reading, writer)
        except (OSError, ValueError) as error:
            log.warning("a connection broke: %s", error)
        finally:
            reading.cancel()
            self._connections -= 1
            writer.close()

    async def _answer(self, request: Event, reading: asyncio.Task[bytes], writer: asyncio.StreamWriter) -> None:
        match request["do"]:
            case "start":
                await _say(writer, await self._start(request["key"], request["launch"]))
            case "end":
                await _say(writer, {"ended": self._end_of(request)})
            case "state":
                await _say(writer, {"servers": [self._tell(one) for one in self._servers.values()]})
            case asked:
                one = self._servers.get(request["key"])
                if one is None or one.has_ended:
                    await _say(writer, {"unknown": True})
                elif asked == "offer":
                    await _say(writer, one.offer(request["known"]))
                elif asked == "call":
                    await self._call(one, request, reading, writer)
                else:
                    await _say(writer, {**await one.ask(request), "run": one.run})

    async def _start(self, key: str, launch: dict[str, Any]) -> Event:
        until, why = self._failed.get(key, (0.0, ""))
        one = self._servers.get(key)
        starts = time.monotonic() >= until and (one is None or one.has_ended)
        if starts:
            one = self._servers[key] = ServerSession(key, launch)
        elif launch.get("home"):
            # The HOME was made for a process that is not started.
            shutil.rmtree(launch["home"], ignore_errors=True)
        if one is None or one.has_ended:
            return {"failed": "start", "why": why}
        try:
            await one.ready()
        except CannotStart as error:
            self._failed[key] = (time.monotonic() + _TRY_AGAIN_SECONDS, str(error))
            await self._end([one])
            return {"failed": "start", "why": str(error)}
        self._failed.pop(key, None)
        return {"about": one.about, "run": one.run}

    async def _call(
        self, one: ServerSession, request: Event, reading: asyncio.Task[bytes], writer: asyncio.StreamWriter
    ) -> None:
        ticket, call = request["ticket"], one.calls.get(request["ticket"])
        if request.get("resumed") and (call is None or not call.waits_for_answer):
            return await _say(writer, {"failed": "lost", "why": "the call that asked has ended"})
        if call is not None and call.waits_for_answer and "answers" in request:
            call.answer(request["answers"])
        else:
            # A call that still has this ticket is about to end: its worker hung up.
            call = one.begin_call(ticket, request)
        try:
            while True:
                event = await _first(call, reading)
                if event is None:
                    break
                await _say(writer, {**event, "run": one.run})
                if ASKED in event and event[ASKED]["held"]:
                    call.expire_in(request["hold"])
                    return
                if ASKED in event or any(name in event for name in FINAL):
                    return
        except OSError:
            pass
        call.end()

    def _end_of(self, request: Event) -> int:
        wanted = {name: request[name] for name in ("job", "owner", "workspace") if request.get(name)}
        found = [
            one
            for one in self._servers.values()
            if wanted and all(one.launch[name] == value for name, value in wanted.items())
        ]
        # The caller need not wait until they have ended.
        self._endings.add(ending := asyncio.create_task(self._end(found)))
        ending.add_done_callback(self._endings.discard)
        return len(found)

    def _tell(self, one: ServerSession) -> Event:
        return {
            "key": one.key,
            "run": one.run,
            "job": one.launch["job"],
            "name": one.launch["name"],
            "calls": one.count,
            "under_way": len(one.calls),
            "started": one.started_at,
            "tools": len(one.about.get("tools", ())),
        }


async def _say(writer: asyncio.StreamWriter, event: Event) -> None:
    writer.write(json.dumps(event).encode() + b"\n")
    await writer.drain()


async def _first(call: ServerCall, reading: asyncio.Task[bytes]) -> Event | None:
    """Return a call's next event; None if its worker hangs up, or sends anything, first."""
    event = asyncio.create_task(call.next_event())
    await asyncio.wait([event, reading], return_when=asyncio.FIRST_COMPLETED)
    if event.done():
        return event.result()
    event.cancel()
    return None
