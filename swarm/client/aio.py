"""The client for asyncio.

    from swarm.client.aio import Swarm

    async with Swarm() as swarm:
        job = await swarm.submit("Which public functions in this repository have no test?")
        async for event in job.follow():
            print(event.kind)
        print((await job.wait()).text)

Every call runs the method of `swarm.client.swarm` on a thread. Following uses asyncio itself: one loop follows a thousand jobs without
a thread. All waits share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from swarm.capabilities.mapping.maps import LineResult, MapView
from swarm.client import maps
from swarm.client import swarm as client
from swarm.client.ends import LOOK_SECONDS
from swarm.client.event_feed import EventFeed
from swarm.core.records import Event, JobView, read_event
from swarm.core.settings import Settings
from swarm.store.outage import follow_async
from swarm.store.streams import AsyncStreams
from swarm.streaming.events import StreamEvent

_BLOCK_SECONDS = 2.0
_AWAY_SECONDS = 0.5
Given = ParamSpec("Given")
Subject = TypeVar("Subject")
Returned = TypeVar("Returned")


class _OnThread:
    """An object of the synchronous client whose methods are called on threads."""

    _sync: Any

    def __repr__(self) -> str:
        return f"aio.{self._sync!r}"


def _on_thread(
    method: Callable[Concatenate[Subject, Given], Returned],
) -> Callable[Concatenate[Any, Given], Awaitable[Returned]]:
    """Wrap a method of the synchronous client as an awaitable with the same arguments."""

    @wraps(method)
    async def call(self: _OnThread, /, *args: Given.args, **named: Given.kwargs) -> Returned:
        return await asyncio.to_thread(method, self._sync, *args, **named)

    return call


def _handing(
    method: Callable[Concatenate[client.Swarm, Given], Subject], handle: Callable[[Swarm, Subject], Returned]
) -> Callable[Concatenate[Swarm, Given], Coroutine[Any, Any, Returned]]:
    """Wrap a method that returns an object, and return that object's asyncio handle."""

    @wraps(method)
    async def call(self: Swarm, /, *args: Given.args, **named: Given.kwargs) -> Returned:
        return handle(self, await asyncio.to_thread(method, self.sync, *args, **named))

    return call


class Job(_OnThread):
    """A handle on one job."""

    def __init__(self, swarm: Swarm, job: client.Job) -> None:
        self._swarm, self._sync = swarm, job
        self.id, self.warnings, self.new = job.id, job.warnings, job.new

    view = _on_thread(client.Job.view)
    agents = _on_thread(client.Job.agents)
    find_unmet = _on_thread(client.Job.find_unmet)
    board = _on_thread(client.Job.board)
    pad = _on_thread(client.Job.pad)
    page = _on_thread(client.Job.page)
    send = _on_thread(client.Job.send)
    inbox = _on_thread(client.Job.inbox)
    mark_read = _on_thread(client.Job.mark_read)
    wait_reply = _on_thread(client.Job.wait_reply)
    cancel = _on_thread(client.Job.cancel)

    async def follow(self, *, after: str = "0") -> AsyncIterator[Event]:
        """Follow the job's events to its end, like `swarm.Job.follow`."""
        name, over = ("events", self.id), False

        async def ask() -> tuple[Any, bool]:
            found = await self._swarm.streams.wait({name: after}, 0 if over else _BLOCK_SECONDS)
            # The end may have been trimmed, or the job may have expired meanwhile.
            return found, not found and await asyncio.to_thread(self._sync._has_ended, told=over)

        async for found, ended in follow_async(self._sync._outage, ask, _AWAY_SECONDS):
            if ended:
                return
            over = over and bool(found)
            for after, fields in found.get(name, ()):
                event = read_event(after, fields)
                yield event
                over = event.kind == "job_ended"

    async def stream(self) -> AsyncIterator[StreamEvent]:
        """Follow typed events, with labels for people and whole contents for programs, like `swarm.stream`."""
        notifier = EventFeed(self._swarm.sync, self._sync)
        async for event in self.follow():
            for told in await asyncio.to_thread(notifier.tell, event):
                yield told

    async def wait(self, timeout_seconds: float | None = None) -> JobView:
        """Wait for the end and return the finished job. Raises `TimeoutError`; the job continues then."""
        bell, loop = asyncio.Event(), asyncio.get_running_loop()

        async def ask() -> JobView:
            with suppress(TimeoutError):
                await asyncio.wait_for(bell.wait(), LOOK_SECONDS)
            bell.clear()
            self._swarm.sync.ends.check()
            return await asyncio.to_thread(self._sync._look)

        with self._swarm.sync.ends.watching(self.id, lambda: loop.call_soon_threadsafe(bell.set)):
            try:
                async with asyncio.timeout(timeout_seconds):
                    async for view in follow_async(self._sync._outage, ask, _AWAY_SECONDS):
                        if view.ended:
                            return view
            except TimeoutError:
                if not (view := await self.view()).ended:
                    raise
        return view


class Map(_OnThread):
    """A handle on one map."""

    def __init__(self, swarm: Swarm, made: maps.Map) -> None:
        self._swarm, self._sync = swarm, made
        self.id, self.warnings = made.id, made.warnings

    view = _on_thread(maps.Map.view)
    failures = _on_thread(maps.Map.failures)
    go_on = _on_thread(maps.Map.go_on)
    retry = _on_thread(maps.Map.retry)
    cancel = _on_thread(maps.Map.cancel)
    _interpret = _on_thread(maps.Map.interpret)

    async def results(self, *, after: str = "0") -> AsyncIterator[LineResult]:
        """Follow the result of each line up to the map's end, like `swarm.Map.results`."""
        name = ("map", self.id, "results")

        async def ask() -> tuple[Any, list[LineResult], bool]:
            found = (await self._swarm.streams.wait({name: after}, _BLOCK_SECONDS)).get(name, [])
            return (found, *await self._interpret(found))

        async for found, results, over in follow_async(self._sync._outage, ask, _AWAY_SECONDS):
            after = found[-1][0] if found else after
            for result in results:
                yield result
            if over:
                return

    async def wait(self) -> MapView:
        """Wait for the end and return the map."""
        async for _ in self.results():
            pass
        return await self.view()


class Swarm(_OnThread):
    """A connection to one swarm, for one event loop; connects on first use."""

    def __init__(self, settings: Settings | None = None, *, tell: Callable[[str], None] | None = None) -> None:
        self.sync = self._sync = client.Swarm(settings, tell=tell)
        """The synchronous client underneath."""
        self.streams = AsyncStreams(self.sync.settings, block_seconds=_BLOCK_SECONDS)
        """The connection for following."""

    jobs = _on_thread(client.Swarm.jobs)
    agent = _on_thread(client.Swarm.agent)
    journal = _on_thread(client.Swarm.journal)
    answer = _on_thread(client.Swarm.answer)
    cancel = _on_thread(client.Swarm.cancel)
    compact = _on_thread(client.Swarm.compact)
    choose_model = _on_thread(client.Swarm.choose_model)
    event = _on_thread(client.Swarm.event)
    workers = _on_thread(client.Swarm.workers)
    maps = _on_thread(client.Swarm.maps)
    submit = _handing(client.Swarm.submit, Job)
    job = _handing(client.Swarm.job, Job)
    map = _handing(client.Swarm.map, Map)
    find_map = _handing(client.Swarm.find_map, Map)

    async def __aenter__(self) -> Swarm:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the connections."""
        await self.streams.aclose()
        await asyncio.to_thread(self.sync.close)
