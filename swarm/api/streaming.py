"""What happens in a job, as it happens: as server-sent events, or one page of events after the other."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel, Field, RootModel
from starlette.concurrency import run_in_threadpool

from swarm.api.endpoint import Body, Call, Endpoint, Refusal, Wait
from swarm.core.records import Event, read_event
from swarm.store.streams import AsyncStreams
from swarm.web.patches import Cursors, Wanted, is_cursor
from swarm.web.reads import read_job
from swarm.web.watching import BLOCK_SECONDS, Watch, encode_told

MOST_STREAMS, MOST_OF_ONE = 256, 64
"""Open at once in this process; of one key."""
_open: Counter[str] = Counter()


class EventsQuery(Wait):
    """Which events are returned."""

    after: str = Field(default="0-0", pattern=r"^[0-9]{1,19}(-[0-9]{1,19})?$")
    """The id of the last event that is known already."""


class Events(BaseModel):
    """A job's lifecycle events, oldest first."""

    events: list[Event]
    ended: bool
    """The job is over, and these are the last ones for now: a message to its root makes it go on."""


class LiveJob(RootModel[dict[str, Any]]):
    """A job with its agents, open questions and last messages, and `events`, the cursor that a stream goes on from."""


class EventStream(RootModel[str]):
    """Server-sent events: each has an `id`, an `event` and JSON as `data`."""


class StreamQuery(Body):
    """What is told; cursors are those of an earlier patch (its `at`), and empty ones begin now."""

    agent: str | None = None
    """An agent whose entries and mail are told, too."""
    words: bool = False
    """What its model says, while it says it."""
    events: str = ""
    journal: str = ""
    """The number of the last entry that is known already; 0: everything from the beginning."""
    mail: str = ""


def list_events(call: Call) -> Events:
    """A job's lifecycle events after one, waited for if there are none yet."""
    wanted: EventsQuery = call.query
    job_id, store = call.path["job"], call.swarm.store
    store.jobs.get(job_id)
    waited, found = 0.0, store.streams.wait(("events", job_id), wanted.after, 0)
    while not found and waited < wanted.wait and not store.jobs.get(job_id).ended:
        # The store waits for some seconds at most, which is less than its connection lets pass in silence.
        found = store.streams.wait(("events", job_id), wanted.after, min(2.0, wanted.wait - waited))
        waited += 2.0
    events = [read_event(entry_id, fields) for entry_id, fields in found]
    return Events(events=events, ended=store.jobs.get(job_id).ended and (not events or events[-1].kind == "job_ended"))


def get_snapshot(call: Call) -> LiveJob:
    """A job as those see it who watch: what its stream tells from the cursor `events` on folds into this."""
    return LiveJob(read_job(call.swarm, call.path["job"]))


def stream_job(call: Call) -> AsyncIterator[str]:
    """What happens in a job as server-sent events: `hello`, then `patch` after `patch` (the job, its agents, questions, events, and of
    one agent the entries, mail and words); `reset`, `gone`, `away`, `back`. With `Last-Event-ID` a stream goes on where it broke off,
    at this server or another one. What each holds: docs/http.md.
    """
    wanted: StreamQuery = call.query
    call.swarm.store.jobs.get(call.path["job"])
    for name in ("events", "journal", "mail"):
        if (cursor := getattr(wanted, name)) and not is_cursor(cursor):
            raise Refusal(400, "bad_request", f"the query: {name}: {cursor[:40]!r} is no cursor")
    if _open.total() >= MOST_STREAMS or _open[call.key.name] >= MOST_OF_ONE:
        raise Refusal(429, "too_many_streams", "so many streams are open that this one is not opened; close some")
    return _follow(call, wanted)


async def _follow(call: Call, wanted: StreamQuery) -> AsyncIterator[str]:
    before = call.headers.get("last-event-id")
    cursors = Cursors.read(before) if before else Cursors("", wanted.events, wanted.journal, wanted.mail)
    watched = Wanted(job_id=call.path["job"], agent_id=wanted.agent, words=wanted.words)
    _open[call.key.name] += 1
    try:
        async with contextlib.aclosing(AsyncStreams(call.swarm.settings, block_seconds=BLOCK_SECONDS)) as streams:
            watch = Watch(call.swarm, streams, watched, cursors, run_in_threadpool)
            async with contextlib.aclosing(watch.follow()) as happening:
                async for told in happening:
                    yield encode_told(told)
    finally:
        _open[call.key.name] -= 1


STREAM_ENDPOINTS = [
    Endpoint("GET", "/v1/jobs/{job}/events", "read", list_events, Events, query=EventsQuery),
    Endpoint("GET", "/v1/jobs/{job}/snapshot", "read", get_snapshot, LiveJob),
    Endpoint(
        "GET",
        "/v1/jobs/{job}/stream",
        "read",
        stream_job,
        EventStream,
        query=StreamQuery,
        headers={"Last-Event-ID": "The id of the last event that came."},
        streams=True,
    ),
]
