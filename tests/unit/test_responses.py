"""Requests and replies in the format of OpenAI's Responses.

Tests of swarm/models/responses_request.py, swarm/models/responses_reply.py, swarm/models/message_encoder.py, swarm/models/codecs.py,
swarm/models/facts.py, swarm/models/failures.py, swarm/rehearsal/responses_wire.py.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.core.errors import PermanentModelError, TransientModelError
from swarm.core.settings import Settings
from swarm.models import ModelRequest, Usage
from swarm.models.chat_request import ChatEncoder
from swarm.models.codecs import codec
from swarm.models.facts import NO_FACTS, ModelFacts, read_refusal
from swarm.models.failures import response_failure, stream_failure
from swarm.models.request import build_request
from swarm.models.responses_reply import ResponsesReader
from swarm.models.responses_request import ResponsesEncoder, short_id
from swarm.models.vendors import WIRES, split_model
from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.responses_wire import build_response, build_response_events, read_responses
from swarm.rehearsal.wire import build_message
from tests.codecs import GO, LOOK, NAME, THOUGHT, encode_as, read_as, text, use, vendor

VENDOR = vendor("responses")
USAGE = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2}
ASKS: dict[str, Any] = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}


encode = partial(encode_as, "responses")
read = partial(read_as, "responses")


def stream(content: list[dict[str, Any]], stop_reason: str = "tool_use") -> list[dict[str, Any]]:
    message = build_message("msg_1", "m-1", content, stop_reason, USAGE)
    return [json.loads(event.partition(b"data: ")[2]) for event in build_response_events(message, ASKS)]


def test_a_request_stores_nothing_and_asks_for_the_encrypted_reasoning() -> None:
    body = encode([GO], system="Be brief.", tools=[LOOK], max_tokens=5, effort="max")
    key = body.pop("prompt_cache_key")
    assert body == {
        "model": "m-1",
        "max_output_tokens": 16,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "Look",
                "description": "Looks.",
                "parameters": LOOK["input_schema"],
                "strict": False,
            }
        ],
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}],
    }
    later = [GO, {"role": "assistant", "content": "gone"}, {"role": "user", "content": "and?"}]
    assert encode(later, system="Be brief.", tools=[LOOK])["prompt_cache_key"] == key
    assert encode([{"role": "user", "content": "other"}], system="Be brief.", tools=[LOOK])["prompt_cache_key"] != key


def test_a_server_that_refuses_a_part_is_not_sent_it_again() -> None:
    refusals = {
        "Unknown parameter: 'prompt_cache_key'.": "cache_control",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.": "effort",
        "Unsupported parameter: 'reasoning.summary' is not supported with this model.": "summary",
        "Your organization must be verified to generate reasoning summaries.": "summary",
        "Encrypted content is not supported with this model.": "thinking",
    }
    known = ModelFacts()
    for message, part in refusals.items():
        told = read_refusal(PermanentModelError(message, kind="bad_request"))
        assert told.lacks == (part,), message
        known += told
    body = encode([GO], tools=[LOOK], tools_allowed=False, effort="low", facts=known)
    assert not {"reasoning", "include", "prompt_cache_key"} & set(body) and body["tool_choice"] == "none"
    assert encode([GO], facts=ModelFacts(lacks=("summary",)))["include"] == ["reasoning.encrypted_content"]


def test_results_hold_their_images_and_say_what_failed() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("seen"), image]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such file", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c3", "content": []},
        text("a notice"),
    ]
    said = {"role": "assistant", "content": [text("I look."), use("c1", a=1), use("c2"), use("c3")]}
    first, call, *_ = encode([said, {"role": "user", "content": results}])["input"]
    assert first == {"role": "assistant", "content": "I look."}
    assert call == {"type": "function_call", "call_id": "c1", "name": "Look", "arguments": '{"a":1}'}
    seen, failed, empty, notice = encode([said, {"role": "user", "content": results}])["input"][4:]
    assert seen["output"] == [
        {"type": "input_text", "text": "seen"},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"},
    ]
    assert failed["output"] == "Error: no such file" and empty["output"] == "(empty)"
    assert notice == {"role": "user", "content": [{"type": "input_text", "text": "a notice"}]}


def test_the_model_gets_its_items_back_as_they_ended_and_other_models_get_words_and_calls() -> None:
    documents = stream([THOUGHT, text("I look."), use(at="a b")])
    reply = read(documents)
    assert reply is not None and reply.stop_reason == "tool_use" and reply.model == NAME
    assert [block["type"] for block in reply.content] == ["thinking", "text", "tool_use"]
    items = [document["item"] for document in documents if document["type"] == "response.output_item.done"]
    assert items[0]["encrypted_content"] != "early" and items[1]["phase"] == "commentary"
    assert items[2]["arguments"] == '{"at": "a b"}'
    messages = [{"role": "assistant", "content": reply.content}]
    assert encode(messages)["input"] == items
    foreign = [
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "Look", "arguments": '{"at":"a b"}'},
    ]
    assert encode(messages, ResponsesEncoder(VENDOR, "m-2"))["input"] == foreign
    chat = json.loads(ChatEncoder(VENDOR, "m-1").encode(ModelRequest(NAME, "", messages), max_output=9))
    assert [set(message) for message in chat["messages"]] == [{"role", "content", "tool_calls"}]
    (own,) = build_request(ModelRequest(model="claude", system="", messages=messages), max_output=9)["messages"]
    assert [block["type"] for block in own["content"]] == ["text", "tool_use"] and "vendor" not in own["content"][0]


def test_the_journal_holds_the_words_of_an_item_once() -> None:
    reply = read([build_response(build_message("msg_1", "m", [text("said")], "end_turn", USAGE), ASKS)])
    assert reply is not None and json.dumps(reply.content).count("said") == 1
    compact = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "Look", "arguments": '{"at":1.50}'}
    for arguments, kept in (('{"at":1}', False), ('{"at":1.50}', True), ("", True), ('{"at', True)):
        item = {**compact, "arguments": arguments}
        made = read([{"object": "response", "output": [item], "status": "completed", "usage": None}])
        assert made is not None and ("arguments" in made.content[0]["vendor"]["item"]) == kept
        assert encode([{"role": "assistant", "content": made.content}])["input"] == [item]


def test_reasoning_that_led_to_nothing_is_not_sent_back() -> None:
    reply = read(stream([THOUGHT], "max_tokens"))
    assert reply is not None and reply.stop_reason == "max_tokens" and reply.content[0]["thinking"] == "Let me see."
    assert (
        encode([GO, {"role": "assistant", "content": reply.content}, GO])["input"]
        == [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}] * 2
    )


def test_reasoning_that_the_server_cannot_read_again_is_not_sent_back() -> None:
    message = build_message("msg_1", "m-1", [THOUGHT, use(at=1)], "tool_use", USAGE)
    bare = read([build_response(message, {})])
    assert bare is not None and "encrypted_content" not in bare.content[0]["vendor"]["item"]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}
    body = encode([GO, {"role": "assistant", "content": bare.content}, result])
    assert [item.get("type") for item in body["input"]] == [None, "function_call", "function_call_output"]
    assert read_responses(body)["messages"][1]["content"] == [use(at=1)]
    open_item = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Let me see."}]}
    bare.content[0]["vendor"]["item"] = open_item
    assert encode([GO, {"role": "assistant", "content": bare.content}, result])["input"][1] == open_item


def test_a_refusal_of_encrypted_reasoning_takes_it_out_of_the_whole_conversation() -> None:
    reply = read(stream([THOUGHT, use(at=1)]))
    assert reply is not None
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}
    messages = [GO, {"role": "assistant", "content": reply.content}, result]
    encoder = ResponsesEncoder(VENDOR, "m-1")
    kinds = [
        [item.get("type") for item in encode(messages, encoder, facts=facts)["input"]]
        for facts in (NO_FACTS, ModelFacts(lacks=("thinking",)), NO_FACTS)
    ]
    calls = ["function_call", "function_call_output"]
    assert kinds == [[None, "reasoning", *calls], [None, *calls], [None, "reasoning", *calls]]


def test_a_call_whose_id_was_changed_keeps_its_result() -> None:
    reply = read(stream([use("c" * 80)]))
    assert reply is not None
    (block,) = reply.content
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}
    call, output = encode([{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}])["input"]
    assert call["call_id"] == output["call_id"] == short_id(block["id"]) and call["id"].startswith("fc_")


def test_a_reply_without_its_end_is_none_wherever_it_was_cut() -> None:
    documents = stream([THOUGHT, text("all done")], "end_turn")
    assert all(read(documents[:end]) is None for end in range(len(documents)))
    whole = read(documents)
    assert whole is not None and whole.stop_reason == "end_turn" and whole.usage == Usage(**USAGE)


def test_words_that_were_not_streamed_are_taken_from_their_item() -> None:
    documents = stream([THOUGHT, text("all done"), use(at=1)])
    without = [document for document in documents if not document["type"].endswith(".delta")]
    ends = [document for document in documents if document["type"] == "response.completed"]
    kept, bare, last = read(documents), read(without), read(ends)
    assert kept is not None and bare is not None and last is not None
    assert kept.content == bare.content == last.content


def test_a_last_list_that_lacks_items_doubles_none() -> None:
    documents = stream([THOUGHT, text("I look."), use(at=1), use("c2", at=2)])
    whole, last = read(documents), documents[-1]["response"]
    assert whole is not None
    for lacking in range(5):
        output = last["output"][lacking:]
        for dropped in ((), ("response.output_item.done",)):
            told = [one for one in documents[:-1] if one["type"] not in dropped or one["output_index"] < lacking]
            reply = read([*told, {**documents[-1], "response": {**last, "output": output}}])
            assert reply is not None and reply.content == whole.content, (lacking, dropped)
    # Items that were not streamed come from the list, and those that it renames are known by their place.
    renamed = [{**item, "id": f"new_{at}"} for at, item in enumerate(last["output"])]
    for told, output in ((documents[:-1], renamed), (documents[:1], last["output"])):
        reply = read([*told, {**documents[-1], "response": {**last, "output": output}}])
        assert reply is not None and [block["type"] for block in reply.content] == [
            *("thinking", "text", "tool_use", "tool_use")
        ]


def test_reasoning_in_parts_is_one_thought() -> None:
    added = {"type": "reasoning", "id": "rs_1", "summary": []}
    parts = [{"type": "summary_text", "text": said} for said in ("One.", "Two.")]
    done = {**added, "summary": parts}
    documents: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        *(
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": at, "delta": said}
            for at, said in ((0, "On"), (0, "e."), (1, "Two."))
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {"status": "completed", "output": [done], "usage": {}}},
    ]
    reply = read(documents)
    assert reply is not None and reply.content[0]["thinking"] == "One.\n\nTwo."


def test_a_refusal_is_one_and_so_is_a_filter() -> None:
    reply = read(stream([text("I will not.")], "refusal"))
    assert reply is not None and reply.stop_reason == "refusal" and reply.content[0]["text"] == "I will not."
    assert encode([{"role": "assistant", "content": reply.content}])["input"][0]["content"][0]["type"] == "refusal"
    filtered = {"object": "response", "output": [], "status": "incomplete", "usage": None}
    cut = read([{**filtered, "incomplete_details": {"reason": "content_filter"}}])
    assert cut is not None and cut.stop_reason == "refusal"


def test_failures_of_the_format_are_understood() -> None:
    def midway(document: dict[str, Any]) -> Any:
        body = ResponsesReader.failure(document)
        assert body is not None
        return stream_failure(body, model=NAME, provider="openai", aliases="")

    def failed(code: str, message: str = "no") -> dict[str, Any]:
        return {"type": "response.failed", "response": {"error": {"code": code, "message": message}}}

    assert midway(failed("context_length_exceeded")).kind == "too_large"
    assert midway(failed("server_is_overloaded")).kind == "overloaded"
    assert midway({"type": "error", "code": "server_error", "message": "no"}).kind == "server"
    limited = midway(failed("rate_limit_exceeded", "Rate limit reached. Please try again in 11.054s."))
    assert (limited.kind, limited.retry_after_seconds) == ("rate_limit", 11.054)
    assert ResponsesReader.failure({"type": "response.completed", "response": {"error": None}}) is None

    def waits(message: str) -> float | None:
        body = {"error": {"message": message, "type": "requests", "code": "rate_limit_exceeded"}}
        error = response_failure(429, {}, body, model=NAME, provider="openai", aliases="", now=0.0)
        assert isinstance(error, TransientModelError) and error.kind == "rate_limit"
        return error.retry_after_seconds

    assert waits("Try again in 250ms.") == 0.25
    assert waits("Please try again in 1m26.5s. Visit the page.") == 86.5
    assert waits("Please try again in 7m0s.") == 420 and waits("Please try again in 2h15m.") == 3_600
    assert waits("Please try again in 20 minutes") is None and waits("Please try again in a while") is None


BLOCKS = st.lists(
    st.one_of(
        st.just(THOUGHT),
        st.builds(text, st.text(min_size=1).filter(str.strip)),
        st.builds(
            lambda given: {"type": "tool_use", "id": "", "name": "Look", "input": given},
            st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=9), st.none()), max_size=3),
        ),
    ),
    min_size=1,
    max_size=5,
).filter(lambda blocks: blocks[-1]["type"] != "thinking")


@given(BLOCKS)
def test_a_reply_comes_back_to_a_strict_server_as_it_left_it(blocks: list[dict[str, Any]]) -> None:
    content = [{**block, "id": f"c{at}"} if block["type"] == "tool_use" else block for at, block in enumerate(blocks)]
    calls = [block for block in content if block["type"] == "tool_use"]
    message = build_message("msg_1", "m-1", content, "tool_use" if calls else "end_turn", USAGE)
    streamed = read([json.loads(event.partition(b"data: ")[2]) for event in build_response_events(message, ASKS)])
    whole = read([build_response(message, ASKS)])
    assert streamed is not None and whole is not None and streamed == whole and streamed.usage == Usage(**USAGE)
    results = [{"type": "tool_result", "tool_use_id": made["id"], "content": "ok"} for made in calls]
    said = [{"role": "assistant", "content": streamed.content}, {"role": "user", "content": results or "and?"}]
    assert read_responses(encode([GO, *said]))["messages"][1]["content"] == content


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"store": True}, "store"),
        ({"max_tokens": 5}, "Unknown parameter"),
        ({"input": [{"type": "function_call_output", "call_id": "z", "output": "x"}]}, "No tool call found"),
        (
            {"input": [{"type": "function_call", "call_id": "z", "name": "Look", "arguments": "{}"}, GO]},
            "No tool output",
        ),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}, GO]}, "required following item"),
        (
            {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "assistant", "content": "x"}]},
            "not persisted",
        ),
        ({"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]}, "Supported values"),
        ({"tools": [{"type": "function", "name": "L", "description": "", "parameters": {"required": []}}]}, "schema"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_the_rehearsal_refuses_what_the_vendor_refuses(change: dict[str, Any], why: str) -> None:
    body = {"model": "m", "store": False, "input": [{"role": "user", "content": "go"}]}
    assert read_responses(body)["messages"] == [{"role": "user", "content": [text("go")]}]
    with pytest.raises(RequestRefused, match=why):
        read_responses({**body, **change})


def test_a_setting_names_the_format_of_a_server() -> None:
    added = {
        "azure": "https://me.openai.azure.com/openai/v1/ AZURE_OPENAI_API_KEY responses",
        "local": "http://gpu:8000/v1 responses",
        "openai": "https://proxy.example.org/v1 PROXY_KEY chat",
    }
    given = Settings(vendors=added).vendors
    found = {name: split_model(f"{name}:m", given) for name in given}
    assert {name: (at[0].key, at[0].wire) for name, at in found.items() if at} == {
        "azure": ("AZURE_OPENAI_API_KEY", "responses"),
        "local": ("", "responses"),
        "openai": ("PROXY_KEY", "chat"),
    }
    assert all(codec(wire).encoder.wire == wire for wire in WIRES)
    with pytest.raises(ValueError, match="formats are"):
        Settings(vendors={"ours": "https://x KEY converse"})
