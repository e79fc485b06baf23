"""Harnesses without their programs: definitions, requirements, decisions, prompts, passed requests, and reports of a protocol.

Tests of swarm/definitions/harness.py, swarm/agent/harnesses.py, swarm/models/passage.py,
swarm/capabilities/harnesses/acp.py, swarm/capabilities/harnesses/codex.py, swarm/capabilities/harnesses/opencode.py,
swarm/capabilities/harnesses/gemini_cli.py, swarm/capabilities/harnesses/hook.py,
swarm/capabilities/harnesses/hook_calls.py, swarm/capabilities/harnesses/programs.py.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from http.client import parse_headers
from io import BytesIO
from pathlib import Path
from queue import SimpleQueue

import pytest

from swarm.agent.decision import CallModel, RunTools, Settle, next_action
from swarm.agent.entries import (
    Answered,
    Assistant,
    Entry,
    Parked,
    Prompt,
    Started,
    ToolFinished,
    ToolStarted,
    decode_entry,
    encode_entry,
)
from swarm.agent.harnesses import GO_ON, plan_prompt
from swarm.agent.history import History, fold
from swarm.agent.journaled import Condition
from swarm.agent.needs import Has, find_unmet, needs_of
from swarm.agent.spec import AgentSpec
from swarm.capabilities.harnesses.acp import ToldCall
from swarm.capabilities.harnesses.claude_code import describe_response
from swarm.capabilities.harnesses.codex import _as_toml
from swarm.capabilities.harnesses.gateway import MAX_BODY_BYTES, read_body
from swarm.capabilities.harnesses.hook_calls import HookCall, HookCalls
from swarm.capabilities.harnesses.programs import read_version
from swarm.capabilities.harnesses.session import _matches, _whole_lines
from swarm.core.usage import Charge, Usage
from swarm.definitions.fields import build_definition
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import Unusable
from swarm.models.passage import PassedReply, PassedRequest, encode_refusal, find_wire

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}


def define(**keys: object) -> AgentDefinition:
    table = {"name": "one", "description": "A harness.", **keys}
    return build_definition(table, path=Path("one.md"), fallback_name="one", name_expected=False, bases={})


def live(*entries: Entry) -> History:
    """Return the history of a harness's life."""
    spec = AgentSpec(
        agent_id="agent-1",
        job_id="job-1",
        definition=define(harness="claude-code"),
        description="d",
        prompt="Build it.",
        model="m",
        workspace="/w",
    )
    return fold("agent-1", [Started(spec=spec), Prompt(text="Build it."), *entries])


def reply(*content: dict[str, object], stop: str = "tool_use") -> Assistant:
    return Assistant(content=list(content), stop_reason=stop)


# -- definitions and requirements ------------------------------------------------------------------------------------


def test_a_definition_names_a_harness_and_the_versions_that_it_accepts() -> None:
    made = define(harness="claude-code", version=">=2.1.330 <2.2", subagents="yes", questionHold="5")
    assert made.harness is not None and not made.asks_model and made.prompt == ""
    assert (made.harness.subagents, made.harness.question_hold) == (True, 5.0)
    assert [made.harness.accepts(one) for one in ("2.1.330", "2.1.400", "2.2.0", "2.1.9", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    exact = define(harness="codex", version="0.169").harness
    assert exact is not None and exact.accepts("0.169.3") and not exact.accepts("0.170.0")


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"harness": "vim"}, "`harness` is 'vim'"),
        ({"harness": "acp"}, "`command` is"),
        ({"harness": "codex", "command": ["codex"]}, "has a program of its own"),
        ({"harness": "codex", "version": "newest"}, "`version` is 'newest'"),
        ({"harness": "codex", "questionHold": "an hour"}, "`questionHold` is 'an hour'"),
        ({"harness": "codex", "subagents": "perhaps"}, "`subagents` is 'perhaps'"),
        ({"harness": "gemini", "subagents": True}, "`subagents` is true"),
    ],
)
def test_a_key_that_cannot_be_used_is_named(keys: dict[str, object], fault: str) -> None:
    with pytest.raises(Unusable, match=fault):
        define(**keys)


def test_only_a_worker_with_the_program_in_an_accepted_version_can_run_it() -> None:
    spec = live().spec
    assert spec is not None
    wanted = spec.model_copy(update={"definition": define(harness="claude-code", version=">=2")})
    needs = needs_of(wanted)
    assert "harness:claude-code" in needs.wants and needs.model == "m"
    others = dict.fromkeys(needs.wants, "")
    assert find_unmet(needs, Has(offers={**others, "harness:claude-code": "2.1.330"})) == ""
    assert "and the agent needs >=2" in find_unmet(needs, Has(offers={**others, "harness:claude-code": "1.0"}))
    lacking = find_unmet(needs, Has(offers={}))
    assert "the harness claude-code (`swarm doctor` there says how to install it" in lacking


# -- decisions ---------------------------------------------------------------------------------------------------


def test_a_call_that_had_begun_is_settled_and_one_that_had_not_is_decided() -> None:
    begun = next_action(live(reply(CALL), ToolStarted(tool_use_id="toolu_1")))
    assert isinstance(begun, Settle) and "It was not run again" in begun.results[0].text
    assert next_action(live(reply(CALL))) == RunTools([CALL])


def test_an_answered_call_continues_the_program_and_a_last_reply_ends_it() -> None:
    parked = Parked(condition=Condition(question="q"), tool_use_id="toolu_1")
    asked = live(reply(CALL), parked)
    assert next_action(asked) == RunTools([CALL])
    asked.apply(Answered(tool_use_id="toolu_1", allowed=True, by="ada"))
    assert next_action(asked) == CallModel()
    ended = live(reply({"type": "text", "text": "Built."}, stop="end_turn"))
    assert type(next_action(ended)).__name__ == "End"


# -- prompts -----------------------------------------------------------------------------------------------------


def test_the_first_prompt_is_the_task_and_the_next_holds_what_its_record_lacks() -> None:
    assert plan_prompt(live(), lambda text: False, fresh=True, continues=False) == "Build it."
    done = ToolFinished(tool_use_id="toolu_1", text="built")
    behind = live(reply(CALL), ToolStarted(tool_use_id="toolu_1"), done)
    told = plan_prompt(behind, lambda text: False, fresh=False, continues=False)
    assert '- Bash {"command": "make"}\n  Result: built' in told
    whole = plan_prompt(behind, lambda text: text == '"tool_use_id":"toolu_1"', fresh=False, continues=False)
    assert whole == GO_ON
    lost = plan_prompt(live(reply(CALL)), lambda text: False, fresh=False, continues=False)
    assert '- Bash {"command": "make"}\n  Result: The call was not run.' in lost
    lost = plan_prompt(behind, lambda text: False, fresh=True, continues=False)
    assert lost.startswith("Build it.") and 'You called Bash {"command": "make"}\nIts result: built' in lost


def test_a_program_that_continues_at_a_call_gets_only_new_words() -> None:
    parked = Parked(condition=Condition(question="q"), tool_use_id="toolu_1")
    asked = live(reply(CALL), parked, Answered(tool_use_id="toolu_1", allowed=True))
    assert plan_prompt(asked, lambda text: False, fresh=False, continues=True) == ""


# -- money -------------------------------------------------------------------------------------------------------


def test_charges_of_other_models_count_beside_those_of_the_agents_own() -> None:
    entry = Assistant(
        content=[],
        stop_reason="end_turn",
        usage=Usage(input_tokens=1),
        cost_usd=1.0,
        model="m",
        beside=(Charge(usage=Usage(input_tokens=2), cost_usd=2.0, model="small"),),
    )
    assert decode_entry(encode_entry(entry), agent_id="a", number=1) == entry
    assert live(entry).paid.cost_usd == 3.0
    assert "beside" not in reply(CALL).model_dump()


# -- passed requests ---------------------------------------------------------------------------------------------


def passed(path: str, **body: object) -> PassedRequest:
    wire = find_wire(path)
    assert wire is not None
    named = {} if wire.name == "gemini" else {"model": "m"}
    return PassedRequest(wire, json.dumps({**named, **body}).encode(), path)


STREAM = "/v1beta/models/m:streamGenerateContent?alt=sse"


def test_only_four_kinds_of_paths_are_passed_on() -> None:
    known = {
        path: find_wire(path)
        for path in ("/v1/messages?beta=true", "/v1/chat/completions", "/responses", STREAM, "/v1/files", "/v1/models")
    }
    assert [wire and wire.name for wire in known.values()] == ["messages", "chat", "responses", "gemini", None, None]
    assert find_wire("/v1beta/models/m:countTokens") is None and find_wire("/v1beta/models/m") is None
    for wire in filter(None, known.values()):
        with pytest.raises(ValueError):
            PassedRequest(wire, b"[1]", STREAM)


def test_a_request_in_the_gemini_api_has_its_model_in_the_path_and_its_bound_in_an_object() -> None:
    tools = [{"functionDeclarations": [{"name": "glob"}], "codeExecution": {}}, {"googleSearch": {}}]
    bounds = {"temperature": 1, "maxOutputTokens": 60_000, "thinkingConfig": {"thinkingBudget": 30_000}}
    request = passed(STREAM, contents=[], tools=tools, generationConfig=bounds)
    assert (request.model, request.longest, request.offers_tools) == ("m", 60_000, True)
    assert request.path_at("g/x") == "/models/g%2Fx:streamGenerateContent?alt=sse"
    request.drop_servers_tools()
    assert json.loads(request.encode("g", 8_000)) == {
        "contents": [],
        "tools": [{"functionDeclarations": [{"name": "glob"}]}],
        "generationConfig": {"temperature": 1, "maxOutputTokens": 8_000, "thinkingConfig": {"thinkingBudget": 7_999}},
    }
    plain = passed("/v1beta/models/m:generateContent", contents=[])
    assert plain.path_at("m") == "/models/m:generateContent" and plain.longest is None
    assert json.loads(plain.encode("m", 5)) == {"contents": [], "generationConfig": {"maxOutputTokens": 5}}
    assert passed("/v1/chat/completions").path_at("m") == "/chat/completions"


def test_a_refusal_has_the_form_of_the_format() -> None:
    told = json.loads(encode_refusal(find_wire(STREAM), 402, "billing_error", "it is used up"))
    assert told == {"error": {"code": 402, "message": "it is used up", "status": "FAILED_PRECONDITION"}}
    assert (
        json.loads(encode_refusal(find_wire("/responses"), 402, "billing_error", "x"))["error"]["code"]
        == "billing_error"
    )
    assert json.loads(encode_refusal(None, 402, "billing_error", "x"))["error"]["type"] == "billing_error"


def test_a_request_keeps_its_parts_but_for_its_model_its_bound_and_server_tools() -> None:
    tools = [{"name": "Bash", "input_schema": {}}, {"type": "web_search_20260209", "name": "web_search"}]
    request = passed(
        "/v1/messages",
        max_tokens=128_000,
        tools=tools,
        thinking={"type": "enabled", "budget_tokens": 50_000},
        extra=[1],
    )
    request.drop_servers_tools()
    body = json.loads(request.encode("full", 8_000))
    assert body == {
        "model": "full",
        "max_tokens": 8_000,
        "tools": tools[:1],
        "thinking": {"type": "enabled", "budget_tokens": 7_999},
        "extra": [1],
    }
    assert json.loads(passed("/responses", client_metadata={"a": 1}).encode("m", 9)) == {
        "model": "m",
        "max_output_tokens": 9,
    }
    chat = json.loads(passed("/chat/completions", stream=True, max_tokens=5).encode("m", None))
    assert chat["stream_options"] == {"include_usage": True} and chat["max_tokens"] == 5


def test_a_request_with_half_a_surrogate_pair_can_be_sent() -> None:
    request = passed("/v1/messages", system="a \ud83d b", metadata={"\udc00": 1})
    assert json.loads(request.encode("full", None)) == {
        "model": "full",
        "system": "a \N{REPLACEMENT CHARACTER} b",
        "metadata": {"\N{REPLACEMENT CHARACTER}": 1},
    }


def body_of(head: str, data: bytes) -> tuple[bytes, bytes]:
    """Return the body of a request, and the bytes that were not read."""
    stream = BytesIO(data)
    return read_body(parse_headers(BytesIO(f"{head}\r\n\r\n".encode())), stream), stream.read()


@pytest.mark.parametrize(
    ("head", "data"),
    [
        ("content-length: -1", b"x" * 9),
        (f"content-length: {MAX_BODY_BYTES + 1}", b"x" * 9),
        ("content-length: many", b"x" * 9),
        ("transfer-encoding: chunked", b"-1\r\nx\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", b"1\r\nx\r\n%x\r\nx\r\n0\r\n\r\n" % MAX_BODY_BYTES),
        ("transfer-encoding: chunked", b"1" * 5_000),
    ],
)
def test_a_body_that_is_too_long_or_has_no_length_is_not_read(head: str, data: bytes) -> None:
    with pytest.raises(ValueError):
        body_of(head, data)


def test_a_body_ends_where_its_length_or_its_chunks_say() -> None:
    assert body_of("Content-Length: 3", b"abcrest") == (b"abc", b"rest")
    assert body_of("Transfer-Encoding: chunked", b"2\r\nab\r\n1;x=1\r\nc\r\n0\r\n\r\nrest") == (b"abc", b"rest")
    assert body_of("x-other: 1", b"rest") == (b"", b"rest")


def test_hooks_wait_for_their_answers_until_the_run_ends() -> None:
    heard: SimpleQueue[HookCall] = SimpleQueue()
    hooks = HookCalls(heard.put)
    with ThreadPoolExecutor(2) as threads:
        answered, left = ({"tool": "one"}, {"tool": "one"})
        first = threads.submit(hooks.ask, answered)
        assert heard.get(timeout=30).told is answered
        second = threads.submit(hooks.ask, left)
        assert heard.get(timeout=30).told is left
        hooks.answer(answered, {"allowed": True})
        hooks.answer(answered, {"allowed": False})
        assert first.result(30) == {"allowed": True} and not second.done()
        hooks.close()
        with pytest.raises(ConnectionError):
            second.result(30)
    with pytest.raises(ConnectionError):
        hooks.ask({"tool": "late"})
    assert heard.empty()


def stream(*events: dict[str, object]) -> bytes:
    return b"".join(b"event: x\ndata: %b\n\n" % json.dumps(event).encode() for event in events)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_usage_of_a_reply_is_read_from_its_bytes_however_they_are_cut(size: int) -> None:
    messages = stream(
        {
            "type": "message_start",
            "message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 7}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
    responses = stream(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_text.delta", "delta": "Hello"},
        {
            "type": "response.completed",
            "response": {
                "usage": {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 7}, "output_tokens": 9}
            },
        },
    )
    chat = (
        stream(
            {"choices": [{"delta": {"content": "Hello"}}]},
            {
                "choices": [],
                "usage": {"prompt_tokens": 12, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 7}},
            },
        )
        + b"data: [DONE]\n\n"
    )
    counts = {"promptTokenCount": 12, "cachedContentTokenCount": 7, "candidatesTokenCount": 4, "thoughtsTokenCount": 5}
    gemini = stream(
        {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}], "usageMetadata": {"promptTokenCount": 12}},
        {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}], "usageMetadata": counts},
    )
    replies = {"/messages": messages, "/responses": responses, "/chat/completions": chat, STREAM: gemini}
    for path, data in replies.items():
        wire = find_wire(path)
        assert wire is not None
        read = PassedReply(wire, "m", whole=False)
        for at in range(0, len(data), size):
            read.read(data[at : at + size])
        told = read.end()
        assert read.has_ended and told is not None
        assert told.usage == Usage(input_tokens=5, cache_read_input_tokens=7, output_tokens=9), path


def test_a_reply_that_was_cut_is_estimated_and_noise_counts_nothing() -> None:
    wire = find_wire("/messages")
    assert wire is not None
    cut = PassedReply(wire, "m", whole=False)
    cut.read(stream({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5}}}))
    cut.read(stream({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}))
    cut.read(
        stream({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 40}})
        + b"data: {"
    )
    told = cut.end()
    assert told is not None and told.usage.output_tokens == told.estimated.output_tokens == 10 and not cut.has_ended
    noise = PassedReply(wire, "m", whole=True)
    noise.read(b"<html>")
    assert noise.end() is None


# -- reports of a protocol ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "name", "given"),
    [
        ({"kind": "execute", "rawInput": {"command": "ls"}}, "Bash", {"command": "ls"}),
        ({"kind": "execute", "rawInput": {"command": ["ls", "-l"]}}, "Bash", {"command": "ls -l"}),
        ({"kind": "execute", "title": "ls -l"}, "Bash", {"command": "ls -l"}),
        ({"kind": "read", "rawInput": {"filePath": "/w/a"}}, "Read", {"file_path": "/w/a"}),
        ({"kind": "read", "locations": [{"path": "/w/a"}]}, "Read", {"file_path": "/w/a"}),
        (
            {"kind": "edit", "rawInput": {"filePath": "/w/a", "content": "x"}},
            "Write",
            {"file_path": "/w/a", "content": "x"},
        ),
        (
            {
                "kind": "edit",
                "rawInput": {},
                "content": [{"type": "diff", "path": "/w/a", "oldText": "x", "newText": "y"}],
            },
            "Edit",
            {"file_path": "/w/a", "old_string": "x", "new_string": "y"},
        ),
        ({"kind": "delete", "locations": [{"path": "/w/a"}]}, "Edit", {"file_path": "/w/a", "action": "delete"}),
        ({"kind": "fetch", "rawInput": {"url": "https://a.b"}}, "WebFetch", {"url": "https://a.b"}),
        ({"kind": "other", "title": "Do it!", "rawInput": {"a": 1}}, "Do_it", {"a": 1}),
    ],
)
def test_a_reported_call_is_one_of_ours_so_that_rules_hold(update: dict[str, object], name: str, given: object) -> None:
    call = ToldCall("c").merge(update).as_call()
    assert (call["name"], call["input"], call["id"]) == (name, given, "c")


def test_a_reported_call_keeps_the_parts_that_an_update_leaves_out() -> None:
    call = (
        ToldCall("c")
        .merge({"kind": "execute", "rawInput": {"command": "ls", "cwd": "/w"}})
        .merge({"status": "completed"})
    )
    text = {"content": [{"type": "content", "content": {"type": "text", "text": "a"}}]}
    assert call.merge(text).tell_result() == "a" and call.given["command"] == "ls"
    assert call.merge({"rawOutput": {"output": "b"}}).tell_result() == "b"


def test_results_of_claude_code_read_as_those_of_our_tools() -> None:
    assert describe_response({"stdout": "a\n", "stderr": "b\n", "interrupted": False}) == "a\nb"
    assert describe_response({"type": "create", "filePath": "/w/a"}) == "Created /w/a."
    assert describe_response({"type": "text", "file": {"content": "x"}}) == "x"
    assert describe_response({"odd": 1}) == '{"odd": 1}'


def test_settings_of_codex_are_written_as_toml() -> None:
    assert _as_toml({"a": 'x "y"\n', "b": True}) == '{a = "x \\"y\\"\\n", b = true}'


# -- sessions and programs ---------------------------------------------------------------------------------------


def test_only_files_of_known_names_are_a_session() -> None:
    pattern = ".claude/projects/*/*.jsonl"
    assert _matches(".claude/projects/-w/1.jsonl", pattern)
    others = (
        ".claude/settings.json",
        ".claude/projects/../x.jsonl",
        ".claude/projects/a/b/c.jsonl",
        ".claude/projects//x.jsonl",
    )
    assert not any(_matches(path, pattern) for path in others)
    assert _whole_lines("a", b'{"a": 1}\n{"b":') == b'{"a": 1}\n'
    with pytest.raises(ValueError):
        _whole_lines("a", b"[1]\n")


def test_a_version_is_that_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1.2.3"}')
    (tmp_path / "bin/x").write_text("")
    assert read_version(str(tmp_path / "bin/x")) == "1.2.3"
