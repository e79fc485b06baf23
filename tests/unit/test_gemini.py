"""Requests and replies in the format of Google's Gemini API.

Tests of swarm/models/gemini_request.py, swarm/models/gemini_reply.py, swarm/models/facts.py, swarm/models/failures.py,
swarm/rehearsal/gemini_wire.py, swarm/rehearsal/formats.py.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.core.errors import PermanentModelError
from swarm.models import ModelRequest, Usage
from swarm.models.chat_request import ChatEncoder
from swarm.models.facts import ModelFacts, read_refusal
from swarm.models.failures import response_failure, stream_failure
from swarm.models.gemini_reply import GeminiReader
from swarm.models.gemini_request import UNSIGNED, GeminiEncoder
from swarm.models.reply import UNREADABLE_INPUT, ReplyBuilder
from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.formats import find_format, format_at
from swarm.rehearsal.gemini_wire import (
    build_content_events,
    build_content_response,
    build_gemini_error,
    read_gemini,
)
from swarm.rehearsal.wire import build_message
from tests.codecs import GO, LOOK, NAME, THOUGHT, encode_as, read_as, text, use, vendor

VENDOR = vendor("gemini")
PATH = "/v1beta/models/m-1:streamGenerateContent"
USAGE = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0}
ASKS: dict[str, Any] = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}


encode = partial(encode_as, "gemini")
read = partial(read_as, "gemini")


def stream(content: list[dict[str, Any]], stop_reason: str = "tool_use") -> list[dict[str, Any]]:
    message = build_message("msg_1", "m-1", content, stop_reason, USAGE)
    return [json.loads(event.removeprefix(b"data: ")) for event in build_content_events(message, ASKS)]


def said(*parts: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}]}


def test_a_request_has_its_bounds_its_tools_and_asks_to_see_the_thoughts() -> None:
    body = encode([GO], system="Be brief.", tools=[LOOK], max_tokens=50, effort="xhigh", tools_allowed=False)
    assert body == {
        "generationConfig": {
            "maxOutputTokens": 50,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
        },
        "toolConfig": {"functionCallingConfig": {"mode": "NONE"}},
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "Look", "description": "Looks.", "parametersJsonSchema": LOOK["input_schema"]}
                ]
            }
        ],
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
    }


def test_a_server_that_refuses_a_part_is_not_sent_it_again() -> None:
    refusals = {
        "Thinking level is not supported for this model.": "effort",
        "Unable to submit request because thinking is not supported by this model.": "thinking",
        'Invalid JSON payload received. Unknown name "includeThoughts"': "summary",
    }
    for message, part in refusals.items():
        assert read_refusal(PermanentModelError(message, kind="bad_request")).lacks == (part,), message
    assert encode([GO], effort="low", facts=ModelFacts(lacks=("effort",)))["generationConfig"]["thinkingConfig"] == {
        "includeThoughts": True
    }
    for lacks in (("thinking",), ("effort", "summary")):
        facts = ModelFacts(lacks=lacks)  # type: ignore[arg-type]
        assert "thinkingConfig" not in encode([GO], effort="low", facts=facts)["generationConfig"]


def test_responses_name_their_functions_and_images_follow_them() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("seen"), image]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such file", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c3", "content": [image]},
        text("a notice"),
    ]
    made = {"role": "assistant", "content": [use("c1", a=1), use("c2"), use("c3")]}
    model, user, rest = encode([made, {"role": "user", "content": results}])["contents"]
    assert [part.get("thoughtSignature") for part in model["parts"]] == [UNSIGNED, None, None]
    answers = [part["functionResponse"] for part in user["parts"]]
    assert [(one["name"], one["id"], one["response"]) for one in answers] == [
        ("Look", "c1", {"output": "seen"}),
        ("Look", "c2", {"error": "no such file"}),
        ("Look", "c3", {"output": "(see the image)"}),
    ]
    assert [next(iter(part)) for part in rest["parts"]] == ["text", "inlineData", "text", "inlineData", "text"]


def test_signatures_go_back_on_their_parts_and_to_no_other_model() -> None:
    documents = [
        said({"text": "Let me ", "thought": True}),
        said({"text": "see.", "thought": True}, {"text": "I "}, {"text": "look"}),
        said({"text": " there.", "thoughtSignature": "s1"}, {"text": " Now"}, {"text": "", "thoughtSignature": "s2"}),
        said({"functionCall": {"name": "Look", "args": {"at": 1.0}, "id": "f1"}, "thoughtSignature": "s3"}),
        said({"functionCall": {"name": "Look"}}, reason="STOP"),
    ]
    reply = read(documents)
    assert reply is not None and reply.stop_reason == "tool_use" and reply.model == NAME
    assert [block["type"] for block in reply.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert reply.content[1]["text"] == "I look there. Now" and json.dumps(reply.content).count("look") == 1
    messages = [{"role": "assistant", "content": reply.content}]
    (back,) = encode(messages)["contents"]
    assert back["parts"] == [
        {"text": "Let me see.", "thought": True},
        {"text": "I look"},
        {"text": " there.", "thoughtSignature": "s1"},
        {"text": " Now"},
        {"text": "", "thoughtSignature": "s2"},
        {"functionCall": {"name": "Look", "args": {"at": 1.0}, "id": "f1"}, "thoughtSignature": "s3"},
        {"functionCall": {"name": "Look", "args": {}, "id": "call_2"}},
    ]
    (other,) = encode(messages, GeminiEncoder(VENDOR, "m-2"))["contents"]
    assert [part.get("thoughtSignature") for part in other["parts"]] == [None, UNSIGNED, None]
    chat = json.loads(ChatEncoder(VENDOR, "m-1").encode(ModelRequest(NAME, "", messages), max_output=9))
    assert [set(message) for message in chat["messages"]] == [{"role", "content", "tool_calls"}]


def test_arguments_that_cannot_be_kept_are_held_as_a_text() -> None:
    reply = read([said({"functionCall": {"name": "Look", "args": {"at": float("inf")}}}, reason="STOP")])
    assert reply is not None and set(reply.content[0]["input"]) == {UNREADABLE_INPUT}
    assert encode([{"role": "assistant", "content": reply.content}])["contents"]


def test_a_reply_without_its_end_is_none_wherever_it_was_cut() -> None:
    documents = stream([THOUGHT, text("all done " * 60)], "end_turn")
    assert len(documents) > 3 and all(read(documents[:end]) is None for end in range(len(documents)))
    whole = read(documents)
    assert whole is not None and whole.stop_reason == "end_turn" and whole.usage == Usage(**USAGE)


def test_the_input_is_told_when_the_reply_begins() -> None:
    begun = []
    reader, builder = GeminiReader(NAME), ReplyBuilder(on_begin=begun.append)
    for event in reader.read(stream([text("hi")])[0]):
        builder.add(event)
    assert begun[0].usage.input_tokens == 7 and begun[0].usage.cache_read_input_tokens == 5


def test_reasons_of_the_end_are_understood() -> None:
    for reason, stop in (
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "refusal"),
        ("RECITATION", "refusal"),
        ("OTHER", "end_turn"),
    ):
        reply = read([said({"text": "x"}, reason=reason)])
        assert reply is not None and reply.stop_reason == stop
    blocked = read(
        [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}}]
    )
    assert blocked is not None and blocked.stop_reason == "refusal" and blocked.usage.input_tokens == 4
    broken = GeminiReader.failure(said(reason="MALFORMED_FUNCTION_CALL"))
    assert broken is not None and stream_failure(broken, model=NAME, provider="gemini", aliases="").kind == "server"
    assert GeminiReader.failure(said({"text": "x"}, reason="STOP")) is None


def test_failures_of_the_format_are_understood() -> None:
    def failure(status: int, message: str, **more: Any) -> Any:
        refusal = RequestRefused(message, status=status, **more)
        body = [build_gemini_error(refusal, status)]
        return response_failure(status, {}, body, model=NAME, provider="gemini", aliases="", now=0.0)

    limited = failure(429, "Resource exhausted.", retry_after=34.5)
    assert (limited.kind, limited.retry_after_seconds) == ("rate_limit", 34.5)
    assert failure(429, "Resource exhausted.", retry_after=0.00005).retry_after_seconds == 0.00005
    # Its messages are long, and may name the wait alone.
    quota = f"You exceeded your current quota. {'* Quota exceeded for metric: requests. ' * 20} Please retry in 11.5s."
    assert (failure(429, quota).kind, failure(429, quota).retry_after_seconds) == ("rate_limit", 11.5)
    assert failure(429, "Your prepayment credits are depleted. Please go to AI Studio.").kind == "billing"
    assert failure(429, "Your project has exceeded its monthly spending cap.").kind == "spend_limit"
    assert failure(503, "The model is overloaded.").kind == "overloaded"
    assert failure(403, "no").kind == "permission" and failure(404, "no").kind == "not_found"
    key = failure(400, "API key not valid. Please pass a valid API key.")
    assert key.kind == "authentication" and "set GEMINI_API_KEY to a valid key" in str(key)
    long = failure(400, "prompt is too long: 1100000 tokens > 1048576 maximum")
    assert long.kind == "too_large" and read_refusal(long).window == 1_048_576


BLOCKS = st.lists(
    st.one_of(
        st.builds(text, st.text(min_size=1).filter(str.strip)),
        st.builds(
            lambda given: {"type": "tool_use", "id": "", "name": "Look", "input": given},
            st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=9), st.none()), max_size=3),
        ),
    ),
    min_size=1,
    max_size=5,
)


@given(BLOCKS, st.booleans())
def test_a_reply_comes_back_to_a_strict_server_as_it_left_it(blocks: list[dict[str, Any]], thinks: bool) -> None:
    content: list[dict[str, Any]] = [THOUGHT] if thinks else []
    for at, block in enumerate(blocks):
        if block["type"] == "text" and content and content[-1]["type"] == "text":
            continue  # the format joins neighbouring texts
        content.append({**block, "id": f"c{at}"} if block["type"] == "tool_use" else block)
    calls = [block for block in content if block["type"] == "tool_use"]
    message = build_message("msg_1", "m-1", content, "tool_use" if calls else "end_turn", USAGE)
    streamed = read([json.loads(event[6:]) for event in build_content_events(message, ASKS)])
    whole = read([build_content_response(message, ASKS)])
    assert streamed is not None and whole is not None and streamed.usage == whole.usage == Usage(**USAGE)
    results = [{"type": "tool_result", "tool_use_id": made["id"], "content": "ok"} for made in calls]
    for reply in (streamed, whole):
        turns = [GO, {"role": "assistant", "content": reply.content}, {"role": "user", "content": results or "and?"}]
        assert read_gemini(encode(turns), PATH)["messages"][1]["content"] == content


CALL = {"functionCall": {"name": "Look", "args": {}, "id": "a"}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"max_tokens": 5}, "Unknown name"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role"),
        ({"contents": [{"role": "model", "parts": [{"text": "x"}]}]}, "immediately after a user turn"),
        ({"contents": [GO, {"role": "model", "parts": [CALL]}]}, "missing a thought_signature"),
        (
            {"contents": [GO, {"role": "model", "parts": [{**CALL, "thoughtSignature": UNSIGNED}]}, GO]},
            "number of function response parts",
        ),
        ({"contents": [GO, {"role": "model", "parts": [{"text": "x", "thoughtSignature": "eA=="}]}]}, "not valid"),
        ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}}, "thinking_level"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_the_rehearsal_refuses_what_the_vendor_refuses(change: dict[str, Any], why: str) -> None:
    go = {"role": "user", "parts": [{"text": "go"}]}
    assert read_gemini({"contents": [go]}, PATH)["messages"] == [{"role": "user", "content": [text("go")]}]
    if "contents" in change:
        change = {"contents": [go if content is GO else content for content in change["contents"]]}
    with pytest.raises(RequestRefused, match=why):
        read_gemini({"contents": [go], **change}, PATH)


def test_paths_tell_the_formats_apart() -> None:
    assert find_format("POST", PATH) is format_at(f"/projects/x{PATH}") is not None
    assert find_format("GET", PATH) is find_format("POST", "/messages") is find_format("POST", f"/x{PATH}") is None
    assert read_gemini({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}, PATH)["stream"] is True
