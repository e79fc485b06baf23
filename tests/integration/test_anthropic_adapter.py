"""The Anthropic adapter through the real SDK, against a local HTTP server that answers from a script.

Tests of swarm/models/anthropic.py, swarm/models/connection.py, swarm/models/postings.py,
swarm/models/vendor_model.py.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from swarm.core.errors import ConfigurationError, ModelError, PermanentModelError, TransientModelError
from swarm.core.ids import reply_span_id, trace_id, traceparent
from swarm.core.settings import Settings, load_settings
from swarm.models import ModelRequest, Reply
from swarm.models.anthropic import AnthropicModel
from swarm.models.connection import explain_missing
from swarm.models.request import build_request
from swarm.models.router import AnyModel
from tests.fleet import Fleet

Event = dict[str, Any]

START: Event = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "output_tokens": 1,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 100,
        },
    },
}


def text_block(index: int, *pieces: str) -> list[Event]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(stop_reason: str = "end_turn") -> list[Event]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": {"output_tokens": 42},
        },
        {"type": "message_stop"},
    ]


HELLO = [START, *text_block(0, "Hel", "lo"), *end()]


@dataclass
class Answer:
    """What the server does with one request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    raw: bytes | None = None
    """Sent as the body instead of `events`."""
    error: dict[str, Any] | None = None
    document: dict[str, Any] | None = None
    """What a request that only looks is answered."""
    hang_after: int | None = None
    """Falls silent after so many events, until the server is closed."""
    ping_for_ever: bool = False
    cut_chunked: bool = False
    """Breaks the connection inside a chunked body."""


class Script:
    """A server of the Messages API that gives the scripted answers in order and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.hashes: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.ports: list[int] = []
        self.connections = 0
        """Connections, whatever was asked on them."""
        self.models: list[AnthropicModel] = []
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        for model in self.models:
            model.close()
        self._server.shutdown()
        self._server.server_close()

    def _handler(script) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                script.connections += 1
                with suppress(ConnectionError):  # a client that leaves in mid-reply, as some tests intend
                    super().handle()

            def do_GET(self) -> None:
                answer = script.answers.popleft()
                content = json.dumps(answer.error or answer.document).encode()
                self.send_response(answer.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                script.bodies.append(json.loads(body))
                script.hashes.append(hashlib.sha256(body).hexdigest())
                script.headers.append({name.lower(): value for name, value in self.headers.items()})
                script.ports.append(self.client_address[1])
                answer = script.answers.popleft()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("request-id", "req_7")
                if answer.error is not None:
                    content = json.dumps(answer.error).encode()
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                    return
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                self._stream(answer)

            def _stream(self, answer: Answer) -> None:
                if answer.raw is not None:
                    self._chunk(answer.raw)
                for number, event in enumerate(answer.events):
                    if answer.hang_after == number:
                        script.closing.wait(30)
                        break
                    data = json.dumps(event, ensure_ascii=False)
                    self._chunk(f"event: {event['type']}\ndata: {data}\n\n".encode())
                while answer.ping_for_ever and not script.closing.wait(0.02):
                    self._chunk(b'event: ping\ndata: {"type": "ping"}\n\n')
                if answer.cut_chunked:
                    self.close_connection = True
                    return
                self._chunk(b"")

            def _chunk(self, data: bytes) -> None:
                try:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(variable, raising=False)
    server = Script()
    yield server
    server.close()


def model_for(script: Script, **fields: Any) -> AnthropicModel:
    settings: dict[str, Any] = {"base_url": script.url, "request_timeout_seconds": 20} | fields
    model = AnthropicModel(Settings(**settings))
    script.models.append(model)
    return model


def a_request(**fields: Any) -> ModelRequest:
    said = [{"role": "user", "content": "hi"}]
    return ModelRequest(**{"model": "claude-opus-5-5", "system": "You work.", "messages": said} | fields)


def complete(script: Script, *answers: Answer, **settings: Any) -> Reply:
    script.answers.extend(answers)
    return model_for(script, **settings).complete(a_request())


@contextmanager
def fails(error_class: type[ModelError], kind: str, words: str = ".") -> Iterator[pytest.ExceptionInfo[ModelError]]:
    with pytest.raises(error_class, match=words) as caught:
        yield caught
    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)


# -- whole replies --------------------------------------------------------------------------------------------


def test_a_whole_reply_comes_back_with_its_usage_and_request_id(script: Script) -> None:
    reply = complete(script, Answer(events=HELLO))
    assert reply.content == [{"type": "text", "text": "Hello"}]
    assert (reply.stop_reason, reply.model, reply.request_id) == ("end_turn", "claude-opus-5-5", "req_7")
    assert reply.usage.model_dump() == {
        "input_tokens": 3,
        "output_tokens": 42,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
    }


def test_a_reply_names_its_request_by_the_hash_of_the_bytes_that_were_sent(script: Script) -> None:
    assert [complete(script, Answer(events=HELLO)).request_sha] == script.hashes


def test_the_request_on_the_wire_is_marked_streamed_and_signed(script: Script) -> None:
    complete(script, Answer(events=HELLO))
    sent, headers = script.bodies[0], script.headers[0]
    mark = {"type": "ephemeral"}
    assert sent == {
        "model": "claude-opus-5-5",
        "max_tokens": 32_000,
        "stream": True,
        "system": [{"type": "text", "text": "You work.", "cache_control": mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]}],
    }
    assert headers["authorization"] == "Bearer rehearsal"
    assert headers["x-stainless-retry-count"] == "0"
    assert "traceparent" not in headers


def test_a_request_says_which_span_it_is_whatever_the_process_traces(script: Script) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    header = traceparent("job-1", "agent-1", 3)
    script.answers.append(Answer(events=HELLO))
    model_for(script).complete(a_request(traceparent=header))
    assert script.headers[0]["traceparent"] == header
    version, trace_of, span, flags = header.split("-")
    assert (version, trace_of, span, flags) == ("00", trace_id("job-1"), reply_span_id("agent-1", 3), "01")


@pytest.mark.parametrize("earlier", [0, 1], ids=["first", "later"])
def test_the_request_on_the_wire_is_the_one_that_the_sdk_would_have_sent(script: Script, earlier: int) -> None:
    tools = [{"name": "Read", "description": "Reads ü.", "input_schema": {"type": "object", "properties": {}}}]
    asked = a_request(tools=tools, effort="low", tools_allowed=False)
    script.answers.extend([Answer(events=HELLO)] * (earlier + 2))
    model = model_for(script)
    for _ in range(earlier):
        model.complete(a_request(traceparent=traceparent("job-1", "agent-1", 3)))
    model.complete(asked)
    with model._client().messages.create(**build_request(asked, max_output=128_000), stream=True) as stream:
        list(stream)
    ours, theirs = script.bodies[earlier:]
    assert ours == theirs
    ours, theirs = ({**headers, "content-length": ""} for headers in script.headers[earlier:])
    assert ours == theirs


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=400, error={"error": {"type": "invalid_request_error", "message": "prompt is too long"}}),
        Answer(status=429, headers={"retry-after": "7"}, error={"error": {"type": "rate_limit_error"}}),
        Answer(status=529, error={}),
        Answer(events=HELLO, hang_after=0),
        Answer(events=HELLO[:2], cut_chunked=True),
        Answer(raw=b"event: error\ndata: not JSON\n\n"),
    ],
    ids=["refused", "limited", "overloaded", "silent", "cut", "error event"],
)
def test_a_later_request_fails_as_a_first_one_does(script: Script, answer: Answer) -> None:
    failures = []
    for earlier in (0, 1):
        model = model_for(script, silence_seconds=0.3)
        script.answers.extend([*[Answer(events=HELLO)] * earlier, answer])
        for _ in range(earlier):
            model.complete(a_request())
        with pytest.raises(ModelError) as caught:
            model.complete(a_request())
        error = caught.value
        failures.append((type(error), error.kind, str(error), getattr(error, "retry_after_seconds", None)))
    assert failures[0] == failures[1]


def test_credentials_that_are_fetched_are_fetched_again_once_they_expire(script: Script) -> None:
    import anthropic
    from anthropic.lib.credentials import AccessToken

    tokens = iter(range(10))
    client = anthropic.Anthropic(
        base_url=script.url,
        max_retries=0,
        credentials=lambda **_: AccessToken(token=f"token-{next(tokens)}", expires_at=1),
    )
    model = AnthropicModel(Settings(base_url=script.url), client=client)
    script.answers.extend([Answer(events=HELLO)] * 2)
    with client:
        for _ in range(2):
            model.complete(a_request())
    first, second = (headers["authorization"] for headers in script.headers)
    assert first != second


@pytest.mark.parametrize("begun", [False, True], ids=["asks for a summary", "begins with one"])
def test_requests_about_summaries_are_those_that_the_sdk_would_have_sent(script: Script, begun: bool) -> None:
    block = {"type": "compaction", "content": "What came before.", "signature": "c2ln"}
    said = [{"role": "assistant", "content": [block]}] if begun else []
    messages = [*said, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    asked = a_request(messages=messages, summarize=None if begun else "All names.")
    script.answers.extend([Answer(events=HELLO), Answer(events=HELLO)])
    model = model_for(script)
    model.complete(asked)
    wanted: Any = {} if begun else {"compaction": {"type": "summarize", "instructions": "All names."}}
    beta, body = ["compact-2026-09-04"], build_request(asked, max_output=128_000)
    with model._client().beta.messages.create(**body, **wanted, betas=beta, stream=True) as stream:  # type: ignore[union-attr]
        list(stream)
    ours, theirs = script.bodies
    assert ours == theirs
    ours, theirs = ({**headers, "content-length": ""} for headers in script.headers)
    assert ours == theirs


@pytest.mark.parametrize(
    ("answer", "can"),
    [
        ({"capabilities": {"compaction": {"supported": True, "summarize": {"supported": True}}}}, True),
        ({"capabilities": {"compaction": {"supported": True, "summarize": {"supported": False}}}}, False),
        ({"capabilities": {}}, False),
        ({"id": "m"}, False),
    ],
)
def test_whether_a_model_summarizes_is_what_its_server_says_and_asked_once(
    script: Script, answer: dict[str, Any], can: bool
) -> None:
    script.answers.append(Answer(document=answer))
    model = model_for(script)
    assert [model.summarizes("claude-opus-5-5"), model.summarizes("claude-opus-5-5")] == [can, can]
    assert not model_for(script, provider="bedrock").summarizes("claude-opus-5-5"), "nobody is asked"


def test_a_server_that_does_not_know_the_question_makes_no_summaries(script: Script) -> None:
    script.answers.append(Answer(status=404, error={"error": {"type": "not_found_error", "message": "no such path"}}))
    model = model_for(script)
    assert not model.summarizes("claude-opus-5-5") and not model.summarizes("claude-opus-5-5")


def test_a_worker_of_another_provider_leaves_what_begins_with_a_summary_to_others(script: Script) -> None:
    block = {"type": "compaction", "content": "What came before.", "signature": "c2ln"}
    asked = a_request(messages=[{"role": "assistant", "content": [block]}, {"role": "user", "content": "hi"}])
    with pytest.raises(ConfigurationError, match="bedrock cannot read the summary"):
        AnthropicModel(Settings(provider="bedrock"), client=model_for(script)._client()).complete(asked)


def test_thinking_and_its_signature_survive_the_round_trip_byte_for_byte(script: Script) -> None:
    thinking = {"type": "thinking", "thinking": "hm — “so”…\n", "signature": "EqQB/+=="}
    redacted = {"type": "redacted_thinking", "data": "b64=="}
    novel = {"type": "hologram", "voxels": [1, None], "note": None}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "/ä", "limit": 10}}
    events = [
        START,
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm — “so”"},
            {"type": "thinking_delta", "thinking": "…\n"},
            {"type": "signature_delta", "signature": "EqQB/+=="},
        ),
        *block(1, redacted),
        *block(2, novel),
        *block(
            3,
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}},
            *(
                {"type": "input_json_delta", "partial_json": part}
                for part in ["", '{"path": "/', 'ä", "li', 'mit": 10}']
            ),
        ),
        *end("tool_use"),
    ]
    script.answers.extend([Answer(events=events), Answer(events=HELLO)])
    model = model_for(script)
    reply = model.complete(a_request())
    assert reply.content == [thinking, redacted, novel, call]
    assert reply.stop_reason == "tool_use"

    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "text"}
    said = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": [result]},
    ]
    model.complete(a_request(messages=said))
    assert script.bodies[1]["messages"][1] == {"role": "assistant", "content": [thinking, redacted, novel, call]}


def test_progress_is_told_while_the_reply_streams(script: Script) -> None:
    calls = block(1, {"type": "tool_use", "id": "t", "name": "Read", "input": {}})
    script.answers.append(Answer(events=[START, *text_block(0, "x"), *calls, *end("tool_use")]))
    told: list[str] = []
    model_for(script).complete(a_request(), told.append)
    assert told == ["", "writing", "calling Read"]


def test_one_connection_serves_one_request_after_the_other(script: Script) -> None:
    script.answers.extend([Answer(events=HELLO)] * 3)
    model = model_for(script)
    for _ in range(3):
        model.complete(a_request())
    assert len(set(script.ports)) == 1


def test_a_closed_model_opens_a_new_connection(script: Script) -> None:
    script.answers.extend([Answer(events=HELLO)] * 2)
    model = model_for(script)
    for _ in range(2):
        model.complete(a_request())
        model.close()
    assert len(set(script.ports)) == 2


def test_threads_can_share_a_model(script: Script) -> None:
    script.answers.extend([Answer(events=HELLO)] * 12)
    model = model_for(script)
    replies: list[Reply] = []
    threads = [threading.Thread(target=lambda: replies.append(model.complete(a_request()))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [reply.content for reply in replies] == [[{"type": "text", "text": "Hello"}]] * 12


def test_a_forked_process_makes_a_connection_of_its_own(script: Script) -> None:
    script.answers.extend([Answer(events=HELLO)] * 3)
    model = model_for(script)
    model.complete(a_request())
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(model.complete(a_request()).content))
    child.start()
    assert answers.get() == [{"type": "text", "text": "Hello"}]
    child.join(30)
    assert child.exitcode == 0
    model.complete(a_request())
    assert script.ports[0] == script.ports[2] != script.ports[1]


# -- streams that break -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(len(HELLO)))
def test_a_stream_that_ends_early_is_cut(script: Script, length: int) -> None:
    with fails(TransientModelError, "cut"):
        complete(script, Answer(events=HELLO[:length]))


def test_a_connection_that_breaks_in_mid_reply_is_cut(script: Script) -> None:
    with fails(TransientModelError, "cut"):
        complete(script, Answer(events=HELLO[:3], cut_chunked=True))


@pytest.mark.parametrize(
    "raw",
    [
        b"event: message_start\ndata: {broken\n\n",
        b'event: message_start\ndata: {"type": "message_start"}\n\n',
        b"event: message_start\ndata: [1]\n\n",
        b"event: x\ndata: \xff\xfe\n\n",
        b'event: message_start\ndata: {"type": "message_start", "message": {"model": 7}}\n\n'
        b'event: message_delta\ndata: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n'
        b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
        b"<html>Sign in to the hotel's network</html>",
        b"",
    ],
)
def test_a_damaged_stream_is_cut(script: Script, raw: bytes) -> None:
    with fails(TransientModelError, "cut"):
        complete(script, Answer(raw=raw))


def test_an_overload_in_mid_reply_is_transient(script: Script) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with fails(TransientModelError, "overloaded", "in mid-reply"):
        complete(script, Answer(events=[*HELLO[:3], error]))


def test_a_bad_request_found_in_mid_reply_is_permanent(script: Script) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    with fails(PermanentModelError, "bad_request"):
        complete(script, Answer(events=[START, error]))


@pytest.mark.parametrize("events_before", [0, 3])
def test_a_server_that_falls_silent_is_left_long_before_the_request_times_out(
    script: Script, events_before: int
) -> None:
    with fails(TransientModelError, "timeout", "SWARM_SILENCE_SECONDS"):
        complete(script, Answer(events=HELLO, hang_after=events_before), silence_seconds=0.3)


def test_a_stream_that_only_ever_pings_times_out(script: Script) -> None:
    # Its pings are signs of life, so that it is not silence that ends it.
    with fails(TransientModelError, "timeout", "SWARM_REQUEST_TIMEOUT_SECONDS"):
        complete(script, Answer(events=HELLO[:2], ping_for_ever=True), silence_seconds=0.5, request_timeout_seconds=1)


def test_after_a_broken_stream_the_model_still_works(script: Script) -> None:
    script.answers.extend([Answer(events=HELLO[:2]), Answer(events=HELLO)])
    model = model_for(script)
    with fails(TransientModelError, "cut"):
        model.complete(a_request())
    assert model.complete(a_request()).stop_reason == "end_turn"


# -- refusals and absences ----------------------------------------------------------------------------------------


def refusal(status: int, type: str, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    error: dict[str, Any] = {"type": type, "message": message}
    if code is not None:
        error["details"] = {"error_code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=named, error={"type": "error", "error": error})


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (refusal(400, "invalid_request_error", "messages.0: bad"), "bad_request", "messages.0: bad"),
        (refusal(401, "authentication_error"), "authentication", "set ANTHROPIC_API_KEY"),
        (refusal(402, "billing_error"), "billing", "payment"),
        (refusal(403, "permission_error"), "permission", "claude-opus-5-5"),
        (refusal(404, "not_found_error"), "not_found", "'claude-opus-5-5'.*sonnet"),
        (refusal(413, "request_too_large"), "too_large", "Shorten"),
        (refusal(422, "invalid_request_error"), "bad_request", "422"),
        (refusal(429, "rate_limit_error", code="enforced_spend_limit_reached"), "spend_limit", "Raise"),
        (refusal(429, "rate_limit_error", code="contract_spend_limit_reached"), "spend_limit", "Raise"),
    ],
)
def test_a_refusal_is_permanent_and_says_what_to_do(script: Script, answer: Answer, kind: str, words: str) -> None:
    with fails(PermanentModelError, kind, words):
        complete(script, answer)
    assert len(script.bodies) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "retry_after"),
    [
        (refusal(408, "timeout_error"), "timeout", None),
        (refusal(409, "conflict_error"), "server", None),
        (refusal(429, "rate_limit_error", retry_after="17"), "rate_limit", 17),
        (refusal(429, "rate_limit_error", retry_after_ms="1500", retry_after="2"), "rate_limit", 1.5),
        (refusal(429, "rate_limit_error", retry_after="99999"), "rate_limit", 3600),
        (refusal(500, "api_error"), "server", None),
        (refusal(503, "api_error"), "server", None),
        (refusal(504, "timeout_error"), "timeout", None),
        (refusal(529, "overloaded_error"), "overloaded", None),
        (refusal(400, "invalid_request_error", x_should_retry="true"), "server", None),
    ],
)
def test_a_passing_failure_is_transient_and_tried_once(
    script: Script, answer: Answer, kind: str, retry_after: float | None
) -> None:
    with fails(TransientModelError, kind) as caught:
        complete(script, answer)
    assert caught.value.retry_after_seconds == retry_after
    assert len(script.bodies) == 1


def test_nobody_listening_is_a_failed_connection_that_names_the_address(script: Script) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        with fails(TransientModelError, "connection", url):
            model_for(script, base_url=url).complete(a_request())


def test_without_credentials_the_variable_to_set_is_named(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for variable in ("ANTHROPIC_PROFILE", "ANTHROPIC_IDENTITY_TOKEN", "ANTHROPIC_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    # A name that is never looked up: without credentials no request leaves.
    with fails(PermanentModelError, "authentication", "set ANTHROPIC_API_KEY"):
        model_for(script, base_url="http://models.invalid").complete(a_request())


@pytest.mark.parametrize(
    ("name", "value"),
    [("ANTHROPIC_API_KEY", "secret\n"), ("ANTHROPIC_AUTH_TOKEN", "ключ"), ("ANTHROPIC_BASE_URL", "host")],
)
def test_what_no_request_can_be_sent_with_is_named_and_not_waited_for(
    script: Script, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert name in explain_missing(Settings())
    with fails(PermanentModelError, "authentication", name) as caught:
        model_for(script).complete(a_request())
    assert value.strip() not in str(caught.value)


SECRET = "of-the-worker-alone"
WORKERS_OWN = {
    "ANTHROPIC_API_KEY": SECRET,
    "ANTHROPIC_AUTH_TOKEN": SECRET,
    "ANTHROPIC_CUSTOM_HEADERS": f"X-Corp-Auth: {SECRET}\nAuthorization: Bearer {SECRET}\nX-Api-Key: {SECRET}",
}


def test_the_configured_server_is_sent_what_the_worker_has(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"X-Corp-Auth: {SECRET}")
    complete(script, Answer(events=HELLO))
    assert script.headers[0]["authorization"] == f"Bearer {SECRET}" and script.headers[0]["x-corp-auth"] == SECRET


def test_a_server_that_a_job_names_is_sent_nothing_that_the_worker_has(script: Script, fleet: Fleet) -> None:
    proxy = Script()
    try:
        address = f"http://worker:{SECRET}@{proxy.url.removeprefix('http://')}"
        proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
        fleet.start_worker(1, **WORKERS_OWN, **dict.fromkeys(proxies, address))
        script.answers.append(Answer(events=HELLO))
        job = fleet.swarm.submit("hi", workspace=fleet.workspace, base_url=script.url)
        assert job.wait(30).text == "Hello"
        assert proxy.connections == 0
    finally:
        proxy.close()
    [headers] = script.headers
    assert headers["authorization"] == "Bearer rehearsal"
    assert SECRET not in str(headers) and not {"x-corp-auth", "x-api-key", "proxy-authorization"} & headers.keys()


def test_a_server_that_a_job_names_cannot_send_the_worker_elsewhere(script: Script) -> None:
    other = Script()
    try:
        script.answers.append(Answer(status=307, headers={"Location": f"{other.url}/v1/messages"}))
        rehearsing = AnthropicModel.rehearsing(Settings(), script.url)
        script.models.append(rehearsing)
        with pytest.raises(ModelError):
            rehearsing.complete(a_request())
        assert len(script.bodies) == 1 and other.connections == 0
    finally:
        other.close()


@pytest.mark.parametrize("model", ["claude-opus-5-5", "ours:m-1", "google:m-1"])
def test_a_redirect_to_another_server_takes_no_key_along(
    script: Script, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    for name, value in {**WORKERS_OWN, "OURS_KEY": SECRET}.items():
        monkeypatch.setenv(name, value)
    other = Script()
    vendors = {"ours": f"{script.url} OURS_KEY", "google": f"{script.url} OURS_KEY gemini"}
    asking = AnyModel(Settings(base_url=script.url, vendors=vendors))
    try:
        script.answers += [Answer(status=307, headers={"Location": at}) for at in ("/near", f"{other.url}/far")]
        other.answers.append(refusal(401, "authentication_error"))
        with fails(
            PermanentModelError, "authentication", "." if model.startswith("claude") else "redirects requests to"
        ):
            asking.complete(a_request(model=model))
        assert all(SECRET in str(headers) for headers in script.headers) and len(script.headers) == 2
        assert SECRET not in str(other.headers) and other.bodies == script.bodies[1:]
    finally:
        other.close()
        asking.close()


@pytest.mark.parametrize("url", ["http://10.0.0.7:80", "http://localhost.example.com", "http://127.0.0.1@example.com"])
def test_a_job_cannot_name_a_server_elsewhere(url: str) -> None:
    with pytest.raises(ConfigurationError, match="own host only"):
        AnthropicModel.rehearsing(Settings(), url)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert complete(script, Answer(events=HELLO)).stop_reason == "end_turn"


def test_a_request_that_cannot_be_encoded_is_permanent(script: Script) -> None:
    said = [{"role": "user", "content": "half a pair: \ud83d"}]
    with fails(PermanentModelError, "bad_request", "cannot be encoded"):
        model_for(script).complete(a_request(messages=said))


def test_an_unknown_provider_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_PROVIDER", "acme")
    with pytest.raises(ConfigurationError, match=r"SWARM_PROVIDER: .*'anthropic', 'bedrock' or 'vertex'"):
        load_settings()


def in_a_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("provider", "package"), [("bedrock", "boto3"), ("vertex", "google.auth")])
def test_a_provider_whose_package_is_missing_names_the_extra(provider: str, package: str) -> None:
    said = in_a_new_process(f"""
import sys
sys.modules[{package!r}] = None  # what the import system sees when it is not installed
from swarm.core.errors import ConfigurationError
from swarm.core.ids import reply_span_id, trace_id, traceparent
from swarm.models import ModelRequest
from swarm.models.anthropic import AnthropicModel
from swarm.models.request import build_request
from swarm.models.router import AnyModel
from swarm.core.settings import Settings, load_settings
try:
    AnthropicModel(Settings(provider={provider!r})).complete(ModelRequest(model="m", system="s", messages=[]))
except ConfigurationError as error:
    print(error)
""")
    assert package in said
    assert f"pip install 'celery-swarm[{provider}]'" in said


def test_importing_the_adapter_does_not_import_the_sdk_and_preloading_leaves_nothing_for_later(script: Script) -> None:
    script.answers.append(Answer(events=HELLO))
    said = in_a_new_process(f"""
import sys
from swarm.core.ids import reply_span_id, trace_id, traceparent
from swarm.models import ModelRequest
from swarm.models.anthropic import AnthropicModel, preload
from swarm.core.settings import Settings, load_settings
assert "anthropic" not in sys.modules and "httpx2" not in sys.modules
preload(Settings())
before = set(sys.modules)
said = [{{"role": "user", "content": "hi"}}]
AnthropicModel(Settings(base_url={script.url!r})).complete(ModelRequest(model="m", system="s", messages=said))
print(sorted(set(sys.modules) - before))
""")
    late = [module for module in json.loads(said.replace("'", '"')) if module.startswith(("anthropic", "httpx2"))]
    assert late == []
