"""The server's replies per path: messages, token counts, models, and its own statistics.

A request for a message, in any format, passes these in order: the key, the API's rules, the model's name, the rate limits, the
faults, the script. Its record is stored before the last byte of the reply is sent, so the client can find it.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from swarm.core.log import EventLog
from swarm.models.catalogue import price_of
from swarm.rehearsal import wire
from swarm.rehearsal.connection import Headers, Request, RequestRefused, format_chunk, format_head, format_response
from swarm.rehearsal.conversation import Conversation, read_conversation
from swarm.rehearsal.faults import ERRORS, FaultPlan
from swarm.rehearsal.formats import MESSAGES, WireFormat, find_format
from swarm.rehearsal.ledger import Ledger, RequestRecord, Unmatched
from swarm.rehearsal.provider import InputUsage, Measured, Provider, estimate_tokens
from swarm.rehearsal.scenario import Fault, Scenario, ScriptedReply
from swarm.rehearsal.script import Script

Send = Callable[[bytes], None]

_FIRST_BYTE_SHARE = 0.25
"""Share of a reply's latency before its first byte; then its prefix is in the cache."""
_HANG_SECONDS = 600.0
_SLOW_SECONDS = 5.0
_LEAST_TOKENS = 1_000
"""Minimum free tokens for a summary."""
_WINDOW = 1_000_000
"""Context window of a model that is missing from the price table."""
_SHOWN_CHARACTERS = 400
_MODELS = ("claude-haiku-4-5", "claude-sonnet-5-5", "claude-opus-5-5")
"""Models listed if the scenario names none."""

_log = EventLog(__name__)


@dataclass
class _HttpExchange:
    """One request for a message in progress."""

    request: Request
    send: Send
    record: RequestRecord
    wire_format: WireFormat
    body: dict[str, Any] = field(default_factory=dict)
    """The request's body, in its format."""


class Endpoints:
    """The paths of one server that plays one scenario."""

    def __init__(
        self,
        scenario: Scenario,
        provider: Provider,
        ledger: Ledger,
        closing: threading.Event,
        latency_seconds: float | None = None,
    ) -> None:
        self._scenario = scenario
        self._provider = provider
        self._ledger = ledger
        self._closing = closing
        self._latency = (latency_seconds, latency_seconds) if latency_seconds is not None else None
        self._random = random.Random(scenario.seed)
        self._script = Script(scenario, provider.scripts)
        self._faults = FaultPlan(scenario.faults, scenario.seed)
        self._numbers = itertools.count(1)

    def stats(self) -> dict[str, Any]:
        """Totals so far."""
        return {**self._ledger.stats(), **self._provider.stats()}

    def serve(self, request: Request, send: Send) -> bool:
        """Answer one request; False means that the connection must be closed."""
        request_id = f"req_rehearsed{next(self._numbers):012d}"
        try:
            return self._route(request, send, request_id) and request.keep_alive
        except RequestRefused as refusal:
            self._send_error(send, refusal, request_id)
            return request.keep_alive

    def _route(self, request: Request, send: Send, request_id: str) -> bool:
        path = request.path.rstrip("/")
        if (request.method, path) == ("GET", "/rehearsal/stats"):
            send(format_response(200, [], wire.encode_json({"scenario": self._scenario.name, **self.stats()})))
            return True
        if (found := find_format(request.method, path)) is not None:
            self._ledger.begin(request_id)
            try:
                return self._serve_message(request, send, request_id, found)
            finally:
                self._ledger.end(request_id)
        self._check_key(request)
        if (request.method, path) == ("POST", "/v1/messages/count_tokens"):
            body = self._read_body(request.json(), request.headers.get("anthropic-beta", ""), counting=True)
            self._send_json(send, {"input_tokens": self._provider.measure(body).total_tokens}, request_id)
        elif (request.method, path) == ("GET", "/v1/models"):
            models = [self._describe_model(model) for model in self._scenario.models or _MODELS]
            page = {"data": models, "has_more": False, "first_id": models[0]["id"], "last_id": models[-1]["id"]}
            self._send_json(send, page, request_id)
        elif request.method == "GET" and path.startswith("/v1/models/"):
            model = path.removeprefix("/v1/models/")
            self._check_model(model)
            self._send_json(send, self._describe_model(model), request_id)
        else:
            data = self._provider.route(request, path, self._answer_alone)
            if data is not None:
                send(format_response(200, self._headers(request_id), data))
            return data is not None
        return True

    def _read_body(self, body: Any, betas: str = "", *, counting: bool = False) -> dict[str, Any]:
        if not isinstance(body, dict) or not isinstance(body.get("model"), str) or not body["model"]:
            raise RequestRefused("the body must be a JSON object with a `model`")
        self._check_model(body["model"])
        self._provider.check(body, betas, counting=counting)
        return body

    def _answer_alone(self, body: dict[str, Any]) -> dict[str, Any]:
        """Reply to a body that is not a request of its own, such as one in a batch."""
        body = self._read_body(body)
        conversation = read_conversation(body)
        fault = self._faults.pick(conversation)
        if fault is not None and fault.kind in ERRORS:
            raise _rehearsed_error(fault, fault.kind)
        answer, prefix = self._script.answer(conversation), self._provider.measure(body)
        if answer is None:
            raise self._note_unmatched(conversation)
        room = self._window(body["model"]) - prefix.total_tokens
        content, stop_reason = self._compose(body, prefix, answer.reply, min(room, body["max_tokens"]), room)
        usage = wire.build_usage(self._provider.look_up(body["model"], prefix), answer.reply.usage, content)
        message_id = f"msg_rehearsed{next(self._numbers):012d}"
        return wire.build_message(message_id, body["model"], content, stop_reason, {**usage, "service_tier": "batch"})

    # -- one message --------------------------------------------------------------------------------------

    def _serve_message(self, request: Request, send: Send, request_id: str, found: WireFormat) -> bool:
        record = RequestRecord(time=time.time(), request_id=request_id, status=200)
        exchange = _HttpExchange(request, send, record, found)
        try:
            self._check_key(request)
            exchange.body = request.json()
            given = found.read(exchange.body, request.path)
            body = self._read_body(given, request.headers.get("anthropic-beta", ""))
            exchange.record = replace(
                exchange.record, model=body["model"], messages=len(body["messages"]), stream=body.get("stream") is True
            )
            return self._play(exchange, body)
        except RequestRefused as refusal:
            _log.debug("rehearsal.refused", request_id=request_id, status=refusal.status, reason=refusal.message)
            self._ledger.record(replace(exchange.record, status=refusal.status, error=refusal.message))
            self._send_error(send, refusal, request_id, found)
            return True

    def _play(self, exchange: _HttpExchange, body: dict[str, Any]) -> bool:
        conversation = read_conversation(body)
        exchange.record = replace(exchange.record, definition=conversation.definition, turn=conversation.turn)
        prefix = self._provider.measure(body)
        input_usage = self._provider.look_up(_scope(exchange, body), prefix)
        self._provider.admit(input_usage.fresh_tokens, self._ledger.in_flight)
        fault = self._faults.pick(conversation)
        if fault is not None:
            exchange.record = replace(exchange.record, fault=fault.kind)
            if fault.kind in ERRORS:
                raise _rehearsed_error(fault, fault.kind)
            if fault.kind == "hang":
                self._closing.wait(_HANG_SECONDS if fault.seconds is None else fault.seconds)
                self._ledger.record(replace(exchange.record, error="no reply"))
                return False
        return self._reply(exchange, body, conversation, fault, (prefix, input_usage))

    def _reply(
        self,
        exchange: _HttpExchange,
        body: dict[str, Any],
        conversation: Conversation,
        fault: Fault | None,
        measured: tuple[Measured, InputUsage],
    ) -> bool:
        prefix, input_usage = measured
        room = self._window(body["model"]) - prefix.total_tokens
        if room < 0:
            raise RequestRefused(
                f"prompt is too long: {prefix.total_tokens} tokens > {self._window(body['model'])} maximum"
            )
        if body["max_tokens"] == 0:  # only warms the cache, so the script does not advance
            content: list[dict[str, Any]] = []
            stop_reason, source, latency, override = "max_tokens", "warm-up", None, None
        else:
            answer = self._script.answer(conversation)
            if answer is None:
                raise self._note_unmatched(conversation)
            reply, source = answer.reply, answer.source
            content, stop_reason = self._compose(body, prefix, reply, min(room, body["max_tokens"]), room)
            latency, override = reply.latency_seconds, reply.usage
        usage = wire.build_usage(input_usage, override, content)
        charged = {name: count for name, count in usage.items() if name.endswith("_tokens")}
        if body.get("compaction") is not None:
            usage = wire.bill_summary(usage)
        exchange.record = replace(exchange.record, usage=charged, source=source)
        message_id = "msg_" + exchange.record.request_id.removeprefix("req_")
        message = wire.build_message(message_id, body["model"], content, stop_reason, usage)
        seconds = self._draw_latency(latency)
        if self._closing.wait(seconds * _FIRST_BYTE_SHARE) if seconds else self._closing.is_set():
            return False
        self._provider.store(_scope(exchange, body), prefix)
        remaining = seconds * (1 - _FIRST_BYTE_SHARE)
        try:
            if exchange.record.stream:
                events = exchange.wire_format.events(message, exchange.body)
                return self._send_stream(exchange, events, remaining, fault)
            whole = exchange.wire_format.whole(message, exchange.body)
            return self._send_message(exchange, whole, remaining, fault)
        finally:
            self._provider.spend(charged["output_tokens"])

    def _compose(
        self, body: dict[str, Any], prefix: Measured, reply: ScriptedReply, most: int, room: int
    ) -> tuple[list[dict[str, Any]], str]:
        """Build a reply's content, and its stop reason, with at most `most` tokens in a window with `room` tokens."""
        if body.get("compaction") is not None:
            if reply.stop_reason is not None or most < _LEAST_TOKENS:
                return [], reply.stop_reason or ("max_tokens" if most < room else "model_context_window_exceeded")
            return [self._provider.summarize(body, reply.text or "")], "compaction"
        content = wire.build_content(reply, prefix.digest, lambda: self._provider.bind_thinking(body))
        if content and estimate_tokens(content) > room:
            text = (reply.text or "")[: room * 2]
            return [{"type": "text", "text": text}] if text.strip() else [], "model_context_window_exceeded"
        return content, reply.stop_reason or ("tool_use" if reply.tools else "end_turn")

    def _window(self, model: str) -> int:
        own = self._scenario.context_windows.get(model)
        price = price_of(model)
        return own or (_WINDOW if price is None else price.context_window)

    def _describe_model(self, model: str) -> dict[str, Any]:
        able = {"supported": self._scenario.summarizes}
        return {
            "type": "model",
            "id": model,
            "display_name": model,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": self._window(model),
            "max_tokens": 128_000,
            "capabilities": {"compaction": {**able, "summarize": able}},
        }

    def _send_message(
        self, exchange: _HttpExchange, message: dict[str, Any], seconds: float, fault: Fault | None
    ) -> bool:
        kind = fault.kind if fault else None
        if fault is not None and kind == "slow":
            seconds += _SLOW_SECONDS if fault.seconds is None else fault.seconds
        if seconds and self._closing.wait(seconds):
            return False
        if fault is not None and kind == "stream_error":
            # Without a stream nothing can break midway, so this overload is a plain error.
            raise _rehearsed_error(fault, "529")
        data = format_response(
            200, self._headers(exchange.record.request_id, exchange.wire_format), wire.encode_json(message)
        )
        if kind == "cut":
            self._ledger.record(replace(exchange.record, error="cut"))
            exchange.send(data[: -max(1, len(data) // 4)])
            return False
        self._ledger.record(exchange.record)
        exchange.send(data)
        return True

    def _send_stream(self, exchange: _HttpExchange, events: list[bytes], seconds: float, fault: Fault | None) -> bool:
        headers = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]
        headers += self._headers(exchange.record.request_id, exchange.wire_format)
        if fault is None and not seconds:
            data = b"".join(events)
            self._ledger.record(exchange.record)
            exchange.send(format_head(200, [*headers, ("content-length", str(len(data)))]) + data)
            return True
        kind = fault.kind if fault else None
        record, end, keep, whole = exchange.record, format_chunk(b""), True, events
        if fault is not None and kind == "cut":
            events = _begin_of(events)
            record = replace(record, error="cut", usage=_charge_sent(record, whole, events))
            if fault.abrupt:  # otherwise the response ends as HTTP asks, and its connection is good for the next
                end, keep = b"", False
        elif fault is not None and kind == "stream_error":
            text = fault.message or ERRORS["529"][2]
            events = _begin_of(events)
            record = replace(record, error="overloaded_error", usage=_charge_sent(record, whole, events))
            events = [*events, exchange.wire_format.break_off(text, record.request_id)]
        head = format_head(200, [*headers, ("transfer-encoding", "chunked")])
        pieces = events if kind == "slow" else [b"".join(events[:2]), b"".join(events[2:])]
        if fault is not None and kind == "slow":
            seconds += _SLOW_SECONDS if fault.seconds is None else fault.seconds
        return self._send_pieces(exchange.send, head, pieces, end, seconds, record) and keep

    def _send_pieces(
        self, send: Send, head: bytes, pieces: Iterable[bytes], end: bytes, seconds: float, record: RequestRecord
    ) -> bool:
        """Send the first piece at once, and spread the others evenly over `seconds`; a single piece comes at their end."""
        # An empty chunk would end the reply.
        chunks = [format_chunk(piece) for piece in pieces if piece]
        # Some formats have a single event for a short reply: before it only the head is sent.
        first, *rest = chunks if len(chunks) > 1 else [b"", *(chunks or [b""])]
        send(head + first)
        for number, piece in enumerate(rest, start=1):
            if self._closing.wait(seconds / len(rest)):
                return False
            if number == len(rest):
                self._ledger.record(record)
                piece += end
            send(piece)
        return True

    # -- errors -------------------------------------------------------------------------------------------

    def _note_unmatched(self, conversation: Conversation) -> RequestRefused:
        shown = Unmatched(
            definition=conversation.definition,
            turn=conversation.turn,
            prompt=conversation.prompt[:_SHOWN_CHARACTERS],
            last_result=conversation.last_result[:_SHOWN_CHARACTERS],
            last_text=conversation.last_text[:_SHOWN_CHARACTERS],
        )
        self._ledger.record_unmatched(shown)
        _log.warning("rehearsal.unmatched", scenario=self._scenario.name, definition=shown.definition, turn=shown.turn)
        return RequestRefused(
            f"scenario {self._scenario.name!r} has no rule for this request: definition {shown.definition!r}, "
            f"turn {shown.turn}, prompt {shown.prompt!r}, last text {shown.last_text!r}, "
            f"last result {shown.last_result!r}; add a rule that matches it"
        )

    def _check_key(self, request: Request) -> None:
        if not request.api_key:
            raise RequestRefused(
                "no API key: send one as `Authorization: Bearer` or `x-api-key` (any text is accepted here)",
                status=401,
                kind="authentication_error",
            )

    def _check_model(self, model: str) -> None:
        if self._scenario.models is not None and model not in self._scenario.models:
            raise RequestRefused(f"model: {model}", status=404, kind="not_found_error")

    # -- sending ------------------------------------------------------------------------------------------

    def _send_json(self, send: Send, value: Any, request_id: str) -> None:
        send(format_response(200, self._headers(request_id), wire.encode_json(value)))

    def _send_error(self, send: Send, refusal: RequestRefused, request_id: str, found: WireFormat = MESSAGES) -> None:
        headers = self._headers(request_id, found)
        if refusal.retry_after is not None and found.has_wait:
            headers.append(("retry-after", f"{refusal.retry_after:g}"))
        status = found.status_of(refusal)
        send(format_response(status, headers, wire.encode_json(found.error(refusal, status, request_id))))

    def _headers(self, request_id: str, found: WireFormat = MESSAGES) -> Headers:
        named = [("request-id", request_id), ("x-request-id", request_id)]
        return [*named, *found.limits(self._provider.headers())]

    def _draw_latency(self, own: tuple[float, float] | None) -> float:
        shortest, longest = self._latency or own or self._scenario.latency_seconds
        return shortest if shortest == longest else self._random.uniform(shortest, longest)


def _scope(exchange: _HttpExchange, body: dict[str, Any]) -> str:
    """Scope of the cache: the model and the key."""
    return f"{body['model']}\0{exchange.request.api_key}"


def _begin_of(events: list[bytes]) -> list[bytes]:
    """The events of a reply that breaks off: half of them, with its beginning, and never the last one."""
    return events[: max(min(3, len(events) - 1), len(events) // 2)]


def _charge_sent(record: RequestRecord, whole: list[bytes], sent: list[bytes]) -> dict[str, int]:
    """Charge a reply that ends too early for its input and the output that was sent."""
    usage = record.usage or {}
    return {**usage, "output_tokens": max(1, round(usage["output_tokens"] * wire.share_sent(whole, sent)))}


def _rehearsed_error(fault: Fault, kind: str) -> RequestRefused:
    status, error_type, message = ERRORS[kind]
    code = {"spend_limit": "enforced_spend_limit_reached", "compaction_unavailable": kind}.get(kind)
    message = fault.message or message
    return RequestRefused(message, status=status, kind=error_type, retry_after=fault.retry_after, code=code)
