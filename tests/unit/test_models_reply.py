"""Putting a reply together from its events.

Tests of swarm/models/reply.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.models import Block, Reply
from swarm.models.reply import UNREADABLE_INPUT, ReplyBuilder, tell_apart

Event = dict[str, Any]


def start(**usage: int) -> Event:
    return {"type": "message_start", "message": {"model": "m-1", "usage": usage}}


def end(stop_reason: str | None = "end_turn", **usage: int | None) -> list[Event]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def block(index: int, content: Block, *deltas: Event) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def build(events: list[Event]) -> Reply | None:
    builder = ReplyBuilder()
    for event in events:
        builder.add(event)
    return builder.finish("req-1")


def build_block(content: Block, *deltas: Event) -> Block:
    reply = build([start(), *block(0, content, *deltas), *end()])
    assert reply is not None
    return reply.content[0]


def tool_input(*pieces: str) -> Any:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return build_block({"type": "tool_use", "id": "t", "name": "Read", "input": {}}, *deltas)["input"]


def test_a_summary_comes_whole_as_it_was_given_and_is_billed_beside_the_sums() -> None:
    summary = {"type": "compaction", "content": "What came before.", "signature": "c2ln", "later": {"field": None}}
    counts = {"input_tokens": 1, "output_tokens": 20, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 400}
    usage: Any = {"output_tokens": 0, "iterations": [{"type": "message", **counts}, {"type": "compaction", **counts}]}
    reply = build([start(input_tokens=0, output_tokens=0), *block(0, summary), *end("compaction", **usage)])
    assert reply is not None and reply.content == [summary] and reply.stop_reason == "compaction"
    assert reply.usage.model_dump() == counts


def test_thinking_keeps_its_text_and_signature() -> None:
    assert build_block(
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "so "},
        {"type": "thinking_delta", "thinking": "it is"},
        {"type": "signature_delta", "signature": "c2ln"},
    ) == {"type": "thinking", "thinking": "so it is", "signature": "c2ln"}


def test_citations_gather_on_their_text() -> None:
    cited = build_block(
        {"type": "text", "text": "", "citations": None},
        {"type": "text_delta", "text": "fact"},
        {"type": "citations_delta", "citation": {"cited_text": "a"}},
        {"type": "citations_delta", "citation": {"cited_text": "b"}},
    )
    assert cited == {"type": "text", "text": "fact", "citations": [{"cited_text": "a"}, {"cited_text": "b"}]}


def test_unknown_blocks_fields_and_events_pass_through() -> None:
    novel = {"type": "hologram", "voxels": [1, 2], "nested": {"deep": None}}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}, "caller": {"type": "direct"}}
    events = [start(), {"type": "brand_new"}, *block(0, novel, {"type": "new_delta"}), *block(1, redacted)]
    reply = build([*events, *block(2, call), *end()])
    assert reply is not None
    assert reply.content == [novel, redacted, call]


@given(text=st.text(), cuts=st.lists(st.integers(0, 100)))
def test_a_text_is_the_same_however_it_was_cut(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    assert build_block({"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces)) == {
        "type": "text",
        "text": text,
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(), json_values), ascii_only=st.booleans(), size=st.integers(1, 7))
def test_a_tool_call_is_the_same_however_its_json_was_cut(value: Any, ascii_only: bool, size: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert tool_input(*(text[i : i + size] for i in range(0, len(text), size))) == value


def test_a_tool_call_without_input_has_an_empty_one() -> None:
    assert tool_input() == {}
    assert tool_input("") == {}


@pytest.mark.parametrize("text", ['{"path": "/a', "[1]", '"text"', '{"n": NaN}', "[" * 100_000])
def test_broken_input_is_kept_as_text_under_one_key(text: str) -> None:
    assert tool_input(text) == {UNREADABLE_INPUT: text}


def test_half_a_surrogate_pair_is_replaced_so_that_the_call_can_be_sent_back() -> None:
    assert tool_input('{"a": "x\\ud83d", "b": "\\ud83d\\ude00", "c": "\\\\ud83d"}') == {
        "a": "x\ufffd",
        "b": "\N{GRINNING FACE}",
        "c": "\\ud83d",
    }


def test_interleaved_blocks_come_out_in_order() -> None:
    builder = ReplyBuilder()
    for event in [
        start(),
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "b"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_stop", "index": 1},
        *end(),
    ]:
        builder.add(event)
    reply = builder.finish(None)
    assert reply is not None
    assert [part["text"] for part in reply.content] == ["a", "b"]


def test_the_last_stated_count_of_each_token_class_holds() -> None:
    reply = build(
        [
            start(input_tokens=5, output_tokens=1, cache_read_input_tokens=7, cache_creation_input_tokens=9),
            *end(output_tokens=40, input_tokens=None, cache_read_input_tokens=8),
        ]
    )
    assert reply is not None
    assert reply.usage.model_dump() == {
        "input_tokens": 5,
        "output_tokens": 40,
        "cache_read_input_tokens": 8,
        "cache_creation_input_tokens": 9,
    }


def test_a_stream_without_its_end_is_no_reply() -> None:
    whole = [start(), *block(0, {"type": "text", "text": "x"}), *end()]
    for length in range(len(whole)):
        assert build(whole[:length]) is None
    assert build([start(), *end(stop_reason=None)]) is None


def test_progress_is_told_at_each_blocks_start() -> None:
    told: list[str] = []
    builder = ReplyBuilder(told.append)
    kinds: list[Block] = [
        {"type": "thinking", "thinking": ""},
        {"type": "text", "text": ""},
        {"type": "hologram"},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {}},
    ]
    for index, content in enumerate(kinds):
        for event in block(index, content):
            builder.add(event)
    assert told == ["thinking", "writing", "calling Read"]


def test_calls_are_told_apart_within_a_reply_and_from_those_before() -> None:
    calls = [{"type": "tool_use", "id": "call_0", "name": "Read", "input": {}} for _ in range(2)]
    first = tell_apart(calls, set(), 0)
    assert first[0] == calls[0] and len({call["id"] for call in first}) == 2
    again = tell_apart(calls, {call["id"] for call in first}, 1)
    assert len({call["id"] for call in [*first, *again]}) == 4
