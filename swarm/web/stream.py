"""A live job: its snapshot, and server-sent events for one client."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from pydantic import Field, RootModel

from swarm.client.failures import Refusal
from swarm.client.operations import Body, Invocation, JobId, Table
from swarm.store.streams import AsyncStreams
from swarm.web.patches import Cursors, WatchedParts
from swarm.web.reads import read_job, read_rows
from swarm.web.tab import BLOCK_SECONDS, TabWatch, encode_told

LIVE = Table()
"""Operations of both HTTP and the page."""
_Place = Annotated[str, Field(pattern=r"^([0-9]{1,19}(-[0-9]{1,19})?)?$")]
_RETRY_AFTER_SECONDS = 5.0


class LiveJob(RootModel[dict[str, Any]]):
    """A job with its agents, open questions and last messages, and `events`, the cursor that a stream continues from."""


class JobRows(RootModel[dict[str, Any]]):
    """Agents in the order of their creation, and `left`, how many come later."""


class EventStream(RootModel[str]):
    """Server-sent events: each has an `id`, an `event` and JSON as `data`."""


class StreamPlace(Body):
    """Content and cursors of a stream; cursors come from an earlier patch (its `at`), and empty ones begin now."""

    job: JobId
    agent: Annotated[str | None, Field(description="An agent whose entries and mail are included.")] = None
    words: Annotated[bool, Field(description="Include the words of the agent's model as it writes them.")] = False
    events: _Place = ""
    journal: Annotated[_Place, Field(description="The last known entry; 0: from the beginning.")] = ""
    mail: _Place = ""
    last_event_id: Annotated[str, Field(description="The id of the last event: the stream continues there.")] = ""


class Streams:
    """The open streams of this process."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._open: Counter[str] = Counter()

    def open(self, who: str, stream: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        """Return the stream, counted while it is read. Raises `Refusal` if there are too many."""
        if self._open.total() >= self._most or self._open[who] >= self._most_of_one:
            said = "too many streams are open; close some"
            raise Refusal(429, "too_many_streams", said, retry_after=_RETRY_AFTER_SECONDS)
        return self._count(who, stream)

    async def _count(self, who: str, stream: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        self._open[who] += 1
        try:
            async with contextlib.aclosing(stream):
                async for event in stream:
                    yield event
        finally:
            self._open[who] -= 1


@LIVE.get("/jobs/{job}/snapshot", returns=LiveJob)
def get_snapshot(call: Invocation, job: JobId, count: Annotated[int | None, Field(ge=1)] = None) -> dict[str, Any]:
    """A job for a watcher: patches of its stream from the cursor `events` fold into this. With `count` it has so many agents,
    the oldest ones, and `left` more exist.
    """
    return read_job(call.swarm, job, count)


@LIVE.get("/jobs/{job}/rows", returns=JobRows)
def get_rows(
    call: Invocation, job: JobId, after: Annotated[int, Field(ge=0)] = 0, count: Annotated[int, Field(ge=1)] = 1_000
) -> dict[str, Any]:
    """The next agents of a job after so many of its first ones, for a snapshot that has only those."""
    return read_rows(call.swarm, job, after, count)


@LIVE.get(
    "/jobs/{job}/stream",
    takes=StreamPlace,
    returns=EventStream,
    headers={"Last-Event-ID": "last_event_id"},
    streams=True,
)
def stream_job(call: Invocation, **place: Any) -> AsyncGenerator[str, None]:
    """A job's changes as server-sent events: `hello`, then `patch` after `patch` (the job, its agents, questions, events, and one
    agent's entries, mail and words); `reset`, `gone`, `away`, `back`. With `Last-Event-ID` a broken stream continues,
    at this server or another one. docs/http.md describes each event.
    """
    call.swarm.store.jobs.get(place["job"])
    return follow(call, WatchedParts(job_id=place["job"], agent_id=place["agent"], words=place["words"]), place)


async def follow(call: Invocation, wanted: WatchedParts, place: dict[str, str]) -> AsyncGenerator[str, None]:
    """Yield the events of the watched parts, from the cursors in `place`."""
    given = Cursors(place.get("feed", ""), place["events"], place["journal"], place["mail"])
    cursors = Cursors.read(place["last_event_id"]) if place["last_event_id"] else given
    async with contextlib.aclosing(AsyncStreams(call.swarm.settings, block_seconds=BLOCK_SECONDS)) as streams:
        watch = TabWatch(call.swarm, streams, wanted, cursors, call.on_thread)
        async with contextlib.aclosing(watch.follow()) as external_event:
            async for told in external_event:
                yield encode_told(told)
