"""What happens in a job, as it happens, as server-sent events."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import Field, RootModel
from starlette.concurrency import run_in_threadpool

from swarm.client.failures import Refusal
from swarm.client.operations import Invocation, OfJob, Operation
from swarm.client.reads import CURSOR
from swarm.store.connection import connect_async
from swarm.web.operations import SNAPSHOT
from swarm.web.patches import Cursors, Wanted
from swarm.web.watching import BLOCK_SECONDS, Watch, encode_told

MOST_STREAMS, MOST_OF_ONE = 256, 64
"""Open at once in this process; of one key."""
_Cursor = Annotated[str, Field(pattern=f"{CURSOR}|^$")]
_open: Counter[str] = Counter()


class EventStream(RootModel[str]):
    """Server-sent events: each has an `id`, an `event` and JSON as `data`."""


class StreamPlace(OfJob):
    """What is told; cursors are those of an earlier patch (its `at`), and empty ones begin now."""

    agent: str | None = None
    """An agent whose entries and mail are told, too."""
    words: bool = False
    """What its model says, while it says it."""
    events: _Cursor = ""
    journal: _Cursor = ""
    """The number of the last entry that is known already; 0: everything from the beginning."""
    mail: _Cursor = ""
    last_event_id: str = ""
    """The id of the last event that came: the stream goes on there."""


def stream_job(call: Invocation) -> AsyncIterator[str]:
    """What happens in a job as server-sent events: `hello`, then `patch` after `patch` (the job, its agents, questions, events, and of
    one agent the entries, mail and words); `reset`, `gone`, `away`, `back`. With `Last-Event-ID` a stream goes on where it broke off,
    at this server or another one. What each holds: docs/http.md.
    """
    wanted: StreamPlace = call.given
    call.swarm.store.job(wanted.job)
    if _open.total() >= MOST_STREAMS or _open[call.by] >= MOST_OF_ONE:
        raise Refusal(429, "too_many_streams", "so many streams are open that this one is not opened; close some")
    return _follow(call, wanted)


async def _follow(call: Invocation, wanted: StreamPlace) -> AsyncIterator[str]:
    before = wanted.last_event_id
    cursors = Cursors.read(before) if before else Cursors("", wanted.events, wanted.journal, wanted.mail)
    watched = Wanted(job_id=wanted.job, agent_id=wanted.agent, words=wanted.words)
    _open[call.by] += 1
    try:
        async with connect_async(call.swarm.settings, timeout_seconds=2 * BLOCK_SECONDS) as client:
            watch = Watch(call.swarm, client, watched, cursors, run_in_threadpool)
            async with contextlib.aclosing(watch.follow()) as happening:
                async for told in happening:
                    yield encode_told(told)
    finally:
        _open[call.by] -= 1


STREAM_OPERATIONS = (
    SNAPSHOT,
    Operation(
        "GET",
        "/jobs/{job}/stream",
        "read",
        stream_job,
        StreamPlace,
        EventStream,
        headers={"Last-Event-ID": "last_event_id"},
        streams=True,
    ),
)
