"""Requests and replies in the format of OpenAI's Chat Completions.

Tests of swarm/models/chat_request.py, swarm/models/chat_reply.py, swarm/models/vendors.py, swarm/models/router.py, swarm/models/limits.py,
swarm/models/failures.py, swarm/models/message_encoder.py, swarm/rehearsal/chat_wire.py.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.mcp.servers import tool_name
from swarm.models import ModelRequest, Reply, Usage
from swarm.models.chat_reply import ChatReader, read_usage
from swarm.models.chat_request import ChatEncoder, short_id
from swarm.models.codecs import codec
from swarm.models.facts import ModelFacts
from swarm.models.failures import response_failure
from swarm.models.limits import read_limits
from swarm.models.reply import ReplyBuilder
from swarm.models.request import build_request
from swarm.models.router import AnyModel
from swarm.models.vendors import WIRES, Vendor, split_model, vendors
from swarm.rehearsal.chat_wire import build_chunks, build_whole, read_chat
from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.gemini_wire import read_gemini
from swarm.rehearsal.responses_wire import read_responses
from swarm.rehearsal.wire import build_message
from tests.codecs import GO, encode_as

VENDOR = Vendor("ours", "https://llm.example.org/v1", "OURS_KEY")
NAME = "ours:m-1"
USAGE = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0}
LOOK = {"name": "Look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}


def encode(messages: list[dict[str, Any]], encoder: ChatEncoder | None = None, **fields: Any) -> dict[str, Any]:
    request = ModelRequest(model=NAME, system=fields.pop("system", ""), messages=messages, **fields)
    body: dict[str, Any] = json.loads((encoder or ChatEncoder(VENDOR, "m-1")).encode(request, max_output=9_000))
    return body


def read(chunks: Sequence[dict[str, Any]], *, said: bool = True) -> Reply | None:
    reader, builder = ChatReader(NAME), ReplyBuilder()
    for chunk in chunks:
        for event in reader.read(chunk):
            builder.add(event)
    for event in reader.end(said=said):
        builder.add(event)
    return builder.finish("req_1")


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def call(name: str | None, arguments: str, index: int = 0, call_id: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function} | ({"id": call_id} if call_id else {})


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_a_request_names_the_bare_model_its_limits_and_its_tools() -> None:
    body = encode([{"role": "user", "content": "hi"}], system="Be brief.", tools=[LOOK], max_tokens=50, effort="max")
    assert body == {
        "model": "m-1",
        "max_tokens": 50,
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": "high",
        "tools": [
            {
                "type": "function",
                "function": {"name": "Look", "description": "Looks.", "parameters": LOOK["input_schema"]},
            }
        ],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    }
    refused = ModelFacts(lacks=("effort",), max_output=10_000)
    later = encode([{"role": "user", "content": "hi"}], effort="low", facts=refused, tools=[LOOK], tools_allowed=False)
    assert "reasoning_effort" not in later and later["tool_choice"] == "none" and later["max_tokens"] == 9_000


def test_results_follow_their_calls_at_once_and_their_images_come_after_them() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    calls = [{"type": "tool_use", "id": name, "name": "Look", "input": {"a": 1}} for name in ("c1", "c2")]
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("seen"), image]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such file", "is_error": True},
        text("a notice"),
    ]
    body = encode([{"role": "assistant", "content": [text("I look."), *calls]}, {"role": "user", "content": results}])
    said, first, second, rest = body["messages"]
    assert (
        said["content"] == "I look."
        and [made["function"] for made in said["tool_calls"]] == [{"name": "Look", "arguments": '{"a":1}'}] * 2
    )
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "seen"}
    assert second == {"role": "tool", "tool_call_id": "c2", "content": "Error: no such file"}
    assert rest["role"] == "user" and [part["type"] for part in rest["content"]] == ["text", "image_url", "text"]
    assert rest["content"][1]["image_url"]["url"] == "data:image/png;base64,QUJD"


def test_a_long_id_is_shortened_alike_in_call_and_result() -> None:
    long = "toolu_" + "x" * 60
    made = {"type": "tool_use", "id": long, "name": "Look", "input": {}}
    messages = [
        {"role": "assistant", "content": [made]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": long, "content": "ok"}]},
    ]
    said, result = encode(messages)["messages"]
    assert said["tool_calls"][0]["id"] == result["tool_call_id"] == short_id(long)
    assert len(short_id(long)) <= 40


def test_what_the_model_made_goes_back_to_it_unchanged_and_to_no_other_model() -> None:
    raw = '{"path": "a b",  "n": 1.0}'
    chunks = [
        delta(reasoning_content="Let me"),
        delta(reasoning_content=" see."),
        delta(tool_calls=[call("Look", raw[:5], call_id="call_9") | {"extra_content": {"signature": "s"}}]),
        delta(tool_calls=[call(None, raw[5:])]),
        delta("tool_calls"),
    ]
    reply = read(chunks)
    assert reply is not None and reply.stop_reason == "tool_use" and reply.model == NAME
    thought, made = reply.content
    assert thought["thinking"] == "Let me see." and made["input"] == {"path": "a b", "n": 1.0}
    messages = [{"role": "assistant", "content": reply.content}]
    (back,) = encode(messages)["messages"]
    assert back["reasoning_content"] == "Let me see."
    assert back["tool_calls"] == [
        {
            "type": "function",
            "id": "call_9",
            "function": {"name": "Look", "arguments": raw},
            "extra_content": {"signature": "s"},
        }
    ]
    (other,) = encode(messages, ChatEncoder(VENDOR, "m-2"))["messages"]
    assert "reasoning_content" not in other and "extra_content" not in other["tool_calls"][0]
    request = ModelRequest(model="claude", system="", messages=messages)
    (message,) = build_request(request, max_output=100)["messages"]
    assert [set(block) for block in message["content"]] == [{"type", "id", "name", "input", "cache_control"}]


@pytest.mark.parametrize(
    "pieces",
    [
        [call("Look", "{}", 0, "a"), call("Look", "{}", 0, "b")],
        [call("Look", "", 0, "a"), call(None, "{}", 0), call("Look", "{}", 1, "b")],
        [call("Look", "{}", 0, "a"), call("Look", "", 0, "a"), call("Look", "", 1)],
    ],
    ids=["all numbered 0", "in pieces", "a name repeated, an id missing"],
)
def test_calls_are_told_apart_however_a_server_numbers_them(pieces: list[dict[str, Any]]) -> None:
    reply = read([*(delta(tool_calls=[piece]) for piece in pieces), delta("stop")])
    assert reply is not None and reply.stop_reason == "tool_use"
    assert [(block["name"], block["input"]) for block in reply.content] == [("Look", {})] * 2


def test_a_reply_without_its_end_is_none_wherever_it_was_cut() -> None:
    chunks = [delta(role="assistant"), delta(content="all "), delta(content="done"), delta("stop")]
    assert all(read(chunks[:end], said=False) is None for end in range(len(chunks)))
    whole = read(chunks, said=False)
    assert whole is not None and whole.content == [text("all done")] and whole.stop_reason == "end_turn"
    assert read([delta("length", content="x")]).stop_reason == "max_tokens"  # type: ignore[union-attr]


def test_usage_does_not_count_cached_input_twice() -> None:
    told = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}
    assert Usage(**read_usage(told)) == Usage(input_tokens=40, output_tokens=9, cache_read_input_tokens=60)
    reply = read([delta("stop", content="x"), {"choices": [], "usage": told}])
    assert reply is not None and reply.usage.total_tokens == 109


BLOCKS = st.lists(
    st.one_of(
        st.builds(text, st.text(min_size=1).filter(str.strip)),
        st.builds(
            lambda name, given: {"type": "tool_use", "id": "", "name": name, "input": given},
            st.sampled_from(["Look", "Bash"]),
            st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=9), st.none()), max_size=3),
        ),
    ),
    min_size=1,
    max_size=5,
)


@given(BLOCKS)
def test_a_reply_comes_back_to_a_strict_server_as_it_left_it(blocks: list[dict[str, Any]]) -> None:
    # The format holds one text, before all calls.
    words = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [{**block, "id": f"c{at}"} for at, block in enumerate(blocks) if block["type"] == "tool_use"]
    content = [*([text(words)] if words else []), *calls]
    message = build_message("msg_1", "m-1", content, "tool_use" if calls else "end_turn", USAGE)
    events = [json.loads(event[6:]) for event in build_chunks(message) if b"[DONE]" not in event]
    streamed, whole = read(events), read([build_whole(message)])
    assert streamed is not None and whole is not None and streamed.content == whole.content
    assert streamed.usage == Usage(**USAGE)
    results = [{"type": "tool_result", "tool_use_id": made["id"], "content": "ok"} for made in calls]
    said = [{"role": "assistant", "content": streamed.content}, {"role": "user", "content": results or "and?"}]
    back = read_chat(encode([{"role": "user", "content": "begin"}, *said]))
    assert back["messages"][1]["content"] == content


@pytest.mark.parametrize("wire", WIRES)
def test_a_message_is_encoded_once_however_long_the_conversation_grows(wire: str) -> None:
    seen = list[str]()

    class Counting(codec(wire).encoder):  # type: ignore[misc]
        def _message(self, role: str, blocks: list[dict[str, Any]]) -> Any:
            seen.extend(block["text"] for block in blocks)
            return super()._message(role, blocks)

    encoder, said = Counting(VENDOR, "m-1"), [text("begin")]
    messages: list[dict[str, Any]] = [{"role": "user", "content": said}]
    for turn in range(5):
        said.append(text(f"mail {turn}"))  # arrives before the next request
        request = ModelRequest(NAME, "Be brief.", messages, [LOOK])
        fresh = codec(wire).encoder(VENDOR, "m-1").encode(request, max_output=9)
        assert encoder.encode(request, max_output=9) == encoder.encode(request, max_output=9) == fresh
        said = [text(f"go {turn}")]
        messages += [{"role": "assistant", "content": [text(f"said {turn}")]}, {"role": "user", "content": said}]
    # The last message is encoded for each request, because it may grow: here for two.
    assert all(seen.count(f"said {turn}") == 1 and seen.count(f"mail {turn}") <= 3 for turn in range(4))


def test_the_rehearsal_refuses_a_conversation_that_vendors_refuse() -> None:
    unanswered = {"role": "assistant", "tool_calls": [call("Look", "{}", 0, "a") | {"type": "function"}]}
    with pytest.raises(RequestRefused, match="must be followed by tool messages"):
        read_chat({"model": "m", "messages": [unanswered, {"role": "user", "content": "x"}]})
    with pytest.raises(RequestRefused, match="answers a call"):
        read_chat({"model": "m", "messages": [{"role": "tool", "tool_call_id": "z", "content": "x"}]})
    with pytest.raises(RequestRefused, match="Invalid name in 'tools'"):
        read_chat(encode([{"role": "user", "content": "go"}], tools=[{**LOOK, "name": "x" * 65}]))


@pytest.mark.parametrize("wire", WIRES)
def test_the_longest_name_of_a_tool_fits_every_format(wire: str) -> None:
    name = tool_name("a server", "x" * 100)
    body = encode_as(wire, [GO], tools=[{**LOOK, "name": name}])
    read = {
        "chat": read_chat,
        "responses": read_responses,
        "gemini": partial(read_gemini, path="/v1beta/models/m:generateContent"),
    }
    assert len(name) == 64 and read[wire](body)["tools"][0]["name"] == name


def test_a_model_has_a_vendor_only_if_its_name_begins_with_one() -> None:
    assert split_model("openai:gpt-6", {}) == (vendors({})["openai"], "gpt-6")
    assert split_model("ollama:qwen3:8b", {}) == (vendors({})["ollama"], "qwen3:8b")
    for other in ("claude-sonnet-5-5", "us.anthropic.claude-v1:0", "mistral:7b", "qwen3:8b", "openai:", "openai"):
        assert split_model(other, {}) is None, other
    added = {"ours": "https://llm.example.org/v1/ OURS_KEY"}
    assert split_model(NAME, added) == (VENDOR, "m-1")
    model = AnyModel(Settings(vendors=added))
    assert model.limit_class(NAME).startswith("ours/") and not model.summarizes(NAME)


@pytest.mark.parametrize(
    "given", [{"Ours": "https://x"}, {"ours": "llm.example.org"}, {"ours": "https://x two words"}], ids=str
)
def test_a_vendor_that_cannot_be_read_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"no name of a vendor|needs `URL "):
        Settings(vendors=given)


def test_refusals_and_limits_of_the_format_are_understood() -> None:
    def failure(status: int, code: str | None, message: str = "no") -> Any:
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
        return response_failure(status, {}, body, model=NAME, provider="openai", aliases="", now=0.0)

    assert failure(400, "context_length_exceeded").kind == "too_large"
    assert failure(429, "insufficient_quota").kind == "billing"
    assert failure(429, "rate_limit_exceeded").kind == "rate_limit"
    assert "set OPENAI_API_KEY to a valid key" in str(failure(401, "invalid_api_key"))
    stated = {"x-ratelimit-limit-requests": "60", "x-ratelimit-limit-tokens": "9000"}
    stated |= {"x-ratelimit-remaining-requests": "59", "x-ratelimit-remaining-tokens": "8000"}
    limits = read_limits(stated)
    assert (limits.requests, limits.input, limits.requests_left, limits.input_left) == (60, 9_000, 59, 8_000)


def test_an_order_of_a_batch_names_the_vendor_that_has_none() -> None:
    from swarm.capabilities.batching.batches import refuse_more_turns

    with pytest.raises(ConfigurationError, match="provider openai has no batches"):
        refuse_more_turns(None, "openai", summaries=False, copies=False)  # type: ignore[arg-type]


def test_whatever_the_order_of_chunks_reading_them_ends_or_names_the_damage() -> None:
    pieces = [
        delta(content="a"),
        delta(tool_calls=[call(None, "{}", 3)]),
        delta(tool_calls=[call("Look", "{", 1, "a")]),
    ]
    for some in itertools.permutations(pieces):
        try:
            read(some)
        except (AttributeError, KeyError, TypeError):
            continue
