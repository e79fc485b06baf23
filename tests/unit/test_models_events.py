"""Server-sent events as they are read from a reply's bytes, against the SDK's own reader.

Tests of swarm/models/events.py.
"""

from __future__ import annotations

from itertools import pairwise

import anthropic
import httpx2
from hypothesis import given
from hypothesis import strategies as st

from swarm.models.events import read_events

_LINES = st.sampled_from(
    ["event: ping", "event:message_stop", 'data: {"type": "ü"}', "data:1", "data: 2 ", ": a comment", "id: 7", "", ""]
)


@given(st.lists(_LINES), st.sampled_from(["\n", "\r\n"]), st.sets(st.integers(0, 200)))
def test_events_are_those_that_the_sdk_reads_however_the_bytes_arrive(
    lines: list[str], ending: str, cuts: set[int]
) -> None:
    body = "".join(line + ending for line in lines).encode()
    places = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    chunks = [body[begin:end] for begin, end in pairwise(places)]
    told = anthropic.Stream.raw_events(httpx2.Response(200, content=body))
    theirs = [(event.event or "", event.data) for event in told if event.data]
    ours = [(name.decode(), data.decode()) for name, data in read_events(chunks)]
    assert [(name, [line.strip() for line in data.split("\n")]) for name, data in ours] == [
        (name, [line.strip() for line in data.split("\n")]) for name, data in theirs
    ]


def test_an_event_that_is_cut_off_is_not_told() -> None:
    assert list(read_events([b"event: a\ndata: 1\n\nevent: b\ndata: 2\n"])) == [(b"a", b" 1")]
