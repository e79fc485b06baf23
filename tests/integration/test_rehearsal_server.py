"""The rehearsal server, driven by the real SDK over real HTTP.

Tests of swarm/rehearsal/connection.py, swarm/rehearsal/endpoints.py, swarm/rehearsal/ledger.py,
tests/rehearsal/rate_limits.py, swarm/rehearsal/server.py, swarm/rehearsal/tree.py, swarm/rehearsal/wire.py,
swarm/rehearsal/provider.py.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import Anthropic, EnforcedSpendLimitReachedError

from swarm.rehearsal.tree import tree_size
from tests.rehearsal import RehearsalServer, load_scenario, parse_scenario

DEADLINE_SECONDS = 30.0
MODEL = "claude-sonnet-5-5"
LONG = "word " * 400
TOOLS: list[Any] = [{"name": "LS", "description": "list files", "input_schema": {"type": "object"}}]


@contextmanager
def rehearse(scenario: str, **options: Any) -> Iterator[tuple[RehearsalServer, Anthropic]]:
    """A server for the scenario (YAML, or a shipped name) and a client that never retries."""
    found = parse_scenario(scenario, "test.yaml") if ":" in scenario else load_scenario(scenario)
    with RehearsalServer(found, **options) as server, client_of(server) as client:
        yield server, client


def client_of(server: RehearsalServer, **options: Any) -> Anthropic:
    chosen = {"api_key": "any", "max_retries": 0, "timeout": DEADLINE_SECONDS, **options}
    return Anthropic(base_url=server.url, **chosen)


def ask(client: Anthropic, prompt: str = "hi", **more: Any) -> Any:
    fields: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": prompt}],
        **more,
    }
    return client.messages.create(**fields)


def stream(client: Anthropic, prompt: str = "hi", **more: Any) -> Any:
    fields: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": prompt}],
        **more,
    }
    with client.messages.stream(**fields) as opened:
        return opened.get_final_message()


TALKATIVE = """
name: talkative
rules:
  - when: {turn: 0}
    reply:
      thinking: Let me see what is here.
      text: I will look.
      tools: [{name: LS, input: {path: '{prompt}', deep: {list: [1, true, null, "é"]}}}, {name: LS}]
  - reply: {text: 'I see {last_result}'}
"""


@pytest.mark.parametrize("send", [ask, stream])
def test_a_reply_arrives_whole_with_or_without_a_stream(send: Callable[..., Any]) -> None:
    with rehearse(TALKATIVE) as (server, client):
        message = send(client, "some/folder", tools=TOOLS)
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert message.content[0].thinking == "Let me see what is here."
        assert message.content[1].text == "I will look."
        assert message.content[2].input == {"path": "some/folder", "deep": {"list": [1, True, None, "é"]}}
        assert message.content[3].input == {}
        assert message.content[2].id != message.content[3].id
        assert message.content[2].id.startswith("toolu_")
        assert message.stop_reason == "tool_use"
        assert message.usage.input_tokens > 0
        assert message.usage.output_tokens > 1
        (record,) = server.requests
        assert (record.status, record.model, record.turn, record.messages) == (200, MODEL, 0, 1)
        assert record.usage is not None
        assert record.usage["output_tokens"] == message.usage.output_tokens
        assert record.stream is (send is stream)


def test_a_stream_and_a_plain_reply_are_the_same_message_and_a_replay_gets_the_same_ids() -> None:
    with rehearse(TALKATIVE) as (_, client):
        streamed, plain = stream(client), ask(client)
        assert streamed.to_dict()["content"] == plain.to_dict()["content"]
        assert streamed.usage.output_tokens == plain.usage.output_tokens
        assert ask(client, "other").content[2].id != plain.content[2].id


def test_a_long_text_arrives_in_pieces_that_add_up() -> None:
    with rehearse("rules: [{reply: {text: '{prompt}'}}]") as (_, client):
        prompt = "all of it, ünd more. " * 500
        fields: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 9, "model": MODEL}
        with client.messages.stream(**fields) as opened:
            pieces = list(opened.text_stream)
        assert "".join(pieces) == prompt
        assert 2 <= len(pieces) <= 8


def test_a_conversation_goes_on_with_the_blocks_as_they_came() -> None:
    with rehearse(TALKATIVE) as (_, client):
        first = ask(client, tools=TOOLS)
        calls = [block for block in first.content if block.type == "tool_use"]
        messages = [
            {"role": "user", "content": "hi"},
            first.to_param(),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": c.id, "content": "a"} for c in calls]},
        ]
        second = ask(client, messages=messages, tools=TOOLS)
        assert (second.content[0].text, second.stop_reason) == ("I see a\na", "end_turn")
        with pytest.raises(anthropic.BadRequestError, match="immediately after"):
            ask(client, messages=[*messages[:2], {"role": "user", "content": "forgot"}], tools=TOOLS)


def test_stop_reason_and_usage_can_be_overridden() -> None:
    with rehearse("rules: [{reply: {text: a, stop_reason: max_tokens, usage: {input_tokens: 7}}}]") as (_, client):
        for message in (ask(client), stream(client)):
            assert (message.stop_reason, message.usage.input_tokens) == ("max_tokens", 7)


def test_the_second_turn_reads_what_the_first_wrote() -> None:
    with rehearse("hello") as (server, client):
        mark = {"cache_control": {"type": "ephemeral"}}
        system: Any = [{"type": "text", "text": LONG, **mark}]
        first_user = {"role": "user", "content": [{"type": "text", "text": LONG, **mark}]}
        first = ask(client, system=system, messages=[first_user])
        follow_up = {"role": "user", "content": [{"type": "text", "text": "go on", **mark}]}
        second = stream(client, system=system, messages=[first_user, first.to_param(), follow_up])
        written = first.usage.cache_creation_input_tokens
        assert written > 900
        assert first.usage.cache_creation.ephemeral_5m_input_tokens == written
        assert first.usage.cache_read_input_tokens == 0
        assert second.usage.cache_read_input_tokens == written
        assert 0 < second.usage.cache_creation_input_tokens < 100
        assert ask(client_of(server, api_key="another"), system=system).usage.cache_read_input_tokens == 0
        assert ask(client, system=system, model="other").usage.cache_read_input_tokens == 0
        tokens = server.stats()["tokens"]
        assert tokens["cache_read_input_tokens"] == written


def test_siblings_that_start_before_the_first_reply_begins_all_write() -> None:
    with rehearse("hello", latency_seconds=1.0) as (server, client):
        messages = [{"role": "user", "content": LONG}]
        mark = {"type": "ephemeral"}
        threads = [
            threading.Thread(target=ask, args=(client,), kwargs={"messages": messages, "cache_control": mark})
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
        reads = [record.usage["cache_read_input_tokens"] for record in server.requests if record.usage]
        assert reads == [0, 0]
        assert server.stats()["peak_in_flight"] == 2
        assert ask(client, messages=messages, cache_control=mark).usage.cache_read_input_tokens > 400


def test_warming_the_cache_uses_up_no_rule() -> None:
    with rehearse("rules: [{uses: 1, reply: {text: once}}]") as (_, client):
        warm = ask(client, LONG, max_tokens=0, cache_control={"type": "ephemeral"})
        assert (warm.content, warm.stop_reason) == ([], "max_tokens")
        real = ask(client, LONG, cache_control={"type": "ephemeral"})
        assert real.content[0].text == "once"
        assert real.usage.cache_read_input_tokens == warm.usage.cache_creation_input_tokens


def test_tokens_can_be_counted_and_models_listed() -> None:
    with rehearse("models: [small, large]\nscript: tree") as (_, client):
        counted = client.messages.count_tokens(model="small", messages=[{"role": "user", "content": LONG}])
        assert 450 < counted.input_tokens < 600
        assert [model.id for model in client.models.list()] == ["small", "large"]
        assert client.models.retrieve("small").max_input_tokens == 1_000_000
        for asking in (lambda: client.models.retrieve("huge"), lambda: ask(client, model="huge")):
            with pytest.raises(anthropic.NotFoundError) as caught:
                asking()
            assert caught.value.type == "not_found_error"


def test_without_a_key_the_answer_is_401_and_both_headers_are_accepted() -> None:
    with rehearse("hello") as (server, _):
        body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        statuses = [
            httpx2.post(f"{server.url}/v1/messages", json=body, headers=headers).status_code
            for headers in ({}, {"x-api-key": "k"}, {"authorization": "Bearer k"}, {"authorization": "Basic k"})
        ]
        assert statuses == [401, 200, 200, 401]


def test_responses_carry_the_request_id_and_the_rate_limits() -> None:
    with rehearse("hello") as (server, client):
        raw = client.messages.with_raw_response.create(
            model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
        assert raw.request_id == raw.headers["x-request-id"] == server.requests[0].request_id
        assert raw.headers["anthropic-ratelimit-requests-limit"] == "4000"
        assert raw.headers["anthropic-ratelimit-input-tokens-reset"].endswith("Z")


def test_enforced_rate_limits_answer_429_with_the_time_to_wait() -> None:
    with rehearse("{script: tree, rate_limits: {requests: 2, enforce: true}}") as (_, client):
        assert [ask(client, "TREE depth=0 steps=0").stop_reason for _ in range(2)] == ["end_turn"] * 2
        with pytest.raises(anthropic.RateLimitError) as caught:
            ask(client, "TREE depth=0 steps=0")
        assert 0 < float(caught.value.response.headers["retry-after"]) <= 30


def test_a_request_without_a_rule_is_a_400_that_says_what_is_missing_and_is_remembered() -> None:
    with rehearse("rules: [{when: {prompt: expected}, reply: {text: a}}]") as (server, client):
        with pytest.raises(anthropic.BadRequestError) as caught:
            ask(client, "surprise", system='Your agent type is "explore".')
        assert "definition 'explore', turn 0, prompt 'surprise'" in str(caught.value)
        stats = server.stats()
        assert stats["unmatched"][0]["prompt"] == "surprise"
        assert stats["by_status"] == {"400": 1}


ANSWERED = "rules: [{reply: {text: a longer answer, tools: [{name: LS}]}}]\n"


@pytest.mark.parametrize(
    ("fault", "error", "kind"),
    [
        ("{kind: 400, message: self-set limit}", anthropic.BadRequestError, "invalid_request_error"),
        ("{kind: 401}", anthropic.AuthenticationError, "authentication_error"),
        ("{kind: 429, retry_after: 7}", anthropic.RateLimitError, "rate_limit_error"),
        ("{kind: 500}", anthropic.InternalServerError, "api_error"),
        ("{kind: 529}", anthropic.InternalServerError, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("send", [ask, stream])
def test_an_error_fault_is_the_sdks_own_error_and_passes(
    send: Callable[..., Any], fault: str, error: type[anthropic.APIStatusError], kind: str
) -> None:
    with rehearse(f"{ANSWERED}faults: [{fault[:-1]}, times: 1}}]") as (server, client):
        with pytest.raises(error) as caught:
            send(client)
        assert caught.value.type == kind
        assert caught.value.request_id == server.requests[0].request_id
        assert caught.value.response.headers.get("retry-after") == ("7" if "retry_after" in fault else None)
        assert (caught.value.api_message == "self-set limit") == ("message" in fault)
        assert send(client).stop_reason == "tool_use"
        assert server.stats()["faults"] == {fault[7:10]: 1}


def test_a_spend_limit_is_recognised_by_the_sdk_and_has_no_retry_after() -> None:
    with rehearse(f"{ANSWERED}faults: [{{kind: spend_limit}}]") as (_, client):
        with pytest.raises(EnforcedSpendLimitReachedError) as caught:
            ask(client)
        assert caught.value.error_code == "enforced_spend_limit_reached"
        assert "retry-after" not in caught.value.response.headers


def test_the_sdks_own_retry_gets_past_an_overload() -> None:
    with rehearse(f"{ANSWERED}faults: [{{kind: 529, times: 1}}]") as (server, _):
        assert ask(client_of(server, max_retries=1)).stop_reason == "tool_use"
        assert [record.status for record in server.requests] == [529, 200]


def test_a_cut_stream_ends_without_a_stop_reason() -> None:
    with rehearse(f"{ANSWERED}faults: [{{kind: cut, times: 1}}]") as (server, client):
        fields: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 9, "model": MODEL}
        kinds = [event.type for event in client.messages.create(stream=True, **fields)]
        assert kinds[0] == "message_start"
        assert "message_stop" not in kinds
        assert server.requests[0].error == "cut"
        assert stream(client).stop_reason == "tool_use"


@pytest.mark.parametrize("send", [ask, stream])
def test_an_abrupt_cut_breaks_the_connection(send: Callable[..., Any]) -> None:
    broken = (anthropic.APIConnectionError, httpx2.RemoteProtocolError, httpx2.ReadError)
    with rehearse(f"{ANSWERED}faults: [{{kind: cut, abrupt: true}}]") as (_, client), pytest.raises(broken):
        send(client)


def test_a_stream_error_arrives_in_mid_stream() -> None:
    with rehearse(f"{ANSWERED}faults: [{{kind: stream_error, times: 1}}]") as (_, client):
        with pytest.raises(anthropic.APIStatusError) as caught:
            stream(client)
        assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
        assert stream(client).stop_reason == "tool_use"


def test_a_hanging_request_runs_into_the_clients_time_out() -> None:
    with rehearse(f"{ANSWERED}faults: [{{kind: hang, times: 1}}]") as (server, client):
        with pytest.raises(anthropic.APITimeoutError):
            ask(client_of(server, timeout=0.2))
        assert ask(client).stop_reason == "tool_use"


def test_a_hang_that_ends_closes_the_connection_without_a_reply() -> None:
    with rehearse(f"{ANSWERED}faults: [{{kind: hang, seconds: 0.01}}]") as (server, client):
        with pytest.raises(anthropic.APIConnectionError):
            ask(client)
        assert server.requests[0].error == "no reply"


@pytest.mark.parametrize("send", [ask, stream])
def test_a_slow_reply_is_whole(send: Callable[..., Any]) -> None:
    with rehearse(f"{ANSWERED}faults: [{{kind: slow, seconds: 0.1}}]") as (server, client):
        assert send(client).content[0].text == "a longer answer"
        assert server.requests[0].fault == "slow"


def test_closing_the_server_frees_whoever_waits_for_it() -> None:
    failures: list[Exception] = []

    def wait_for_reply(client: Anthropic) -> None:
        try:
            ask(client)
        except anthropic.APIConnectionError as error:
            failures.append(error)

    with rehearse(f"{ANSWERED}faults: [{{kind: hang}}]") as (server, client):
        thread = threading.Thread(target=wait_for_reply, args=(client,))
        thread.start()
        give_up = time.monotonic() + DEADLINE_SECONDS
        while not server.stats()["in_flight"] and time.monotonic() < give_up:
            thread.join(0.005)
        server.close()
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert len(failures) == 1


def test_a_latency_from_the_rule_the_scenario_or_the_argument_delays_a_whole_reply() -> None:
    with rehearse("latency_seconds: [0.01, 0.02]\nrules: [{reply: {text: a, latency_seconds: 0.03}}]") as (_, client):
        assert stream(client).content[0].text == ask(client).content[0].text == "a"
    with rehearse("latency_seconds: 1000\nrules: [{reply: {text: a}}]", latency_seconds=0.0) as (_, client):
        assert stream(client).content[0].text == "a"


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"411"),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", b"413"),
        (b"POST /v1/messages HTTP/1.1\r\nx-api-key: k\r\ncontent-length: 1\r\n\r\n{", b"400"),
        (b"GET /nowhere HTTP/1.1\r\nx-api-key: k\r\n\r\n", b"404"),
    ],
)
def test_bytes_that_are_no_good_request_are_answered_with_the_right_status(raw: bytes, status: bytes) -> None:
    with rehearse("hello") as (server, _):
        address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        with socket.create_connection(address, timeout=DEADLINE_SECONDS) as connection:
            connection.sendall(raw)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 " + status)


def run_agent(client: Anthropic, prompt: str) -> str:
    """A small agent loop: calls the model until it ends its turn; an `Agent` call is a loop of its own."""
    messages: list[Any] = [{"role": "user", "content": prompt}]
    while True:
        reply = stream(client, messages=messages, tools=[*TOOLS, {**TOOLS[0], "name": "Agent"}])
        if reply.stop_reason == "end_turn":
            return str(reply.content[0].text)
        results = []
        for block in reply.content:
            assert block.type == "tool_use"
            told = run_agent(client, block.input["prompt"]) if block.name == "Agent" else "a.py"
            results.append({"type": "tool_result", "tool_use_id": block.id, "content": f"completed: {told}"})
        messages += [reply.to_param(), {"role": "user", "content": results}]


def test_a_tree_of_agents_counts_every_agent_once() -> None:
    with rehearse("tree") as (server, client):
        size = tree_size(2, 3)
        assert run_agent(client, "Today is a day.\nTREE depth=2 fanout=3 steps=2\n") == f"DONE {size}" == "DONE 13"
        inner, leaves = 4, 9
        assert server.stats()["requests"] == inner * 2 + leaves * 3


def test_it_runs_as_a_process_that_prints_its_url_and_answers_for_its_statistics() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "swarm", "rehearse", "hello", "--latency", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"rehearsing hello at (http://127\.0\.0\.1:\d+)\n", line)
        assert found is not None, line
        with Anthropic(base_url=found[1], api_key="any", max_retries=0) as client:
            assert "rehearsed" in ask(client).content[0].text
        with urllib.request.urlopen(f"{found[1]}/rehearsal/stats", timeout=DEADLINE_SECONDS) as response:
            stats = json.load(response)
        assert (stats["scenario"], stats["requests"], stats["by_status"]) == ("hello", 1, {"200": 1})
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)


def test_an_unknown_scenario_ends_the_process_with_the_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "swarm", "rehearse", "nowhere"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "scenario 'nowhere' cannot be read" in done.stderr
