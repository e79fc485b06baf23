"""The formats that the rehearsal server speaks: each reads requests as the Messages API's, and writes replies in its own form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from swarm.rehearsal import chat_wire, gemini_wire, responses_wire, wire
from swarm.rehearsal.connection import Headers, RequestRefused

Body = dict[str, Any]


class WireFormat(NamedTuple):
    """One format."""

    read: Callable[[Any, str], Any]
    """Returns a body and path as a body of the Messages API. Raises `RequestRefused`."""
    events: Callable[[Body, Body], list[bytes]]
    """Builds the stream of a message that answers a request with this body."""
    whole: Callable[[Body, Body], Body]
    """Builds the reply in one piece."""
    error: Callable[[RequestRefused, int, str], Body]
    """Builds an error's body, with its status, for a request with this id."""
    break_off: Callable[[str, str], bytes]
    """Builds the event of an overload in the middle of a reply, from a message and the request's id."""
    overloaded: int = 503
    """The status of an overloaded server."""
    limits: Callable[[Headers], Headers] = list
    """Returns the headers of limits in the vendor's form."""
    has_wait: bool = True
    """Whether a header of refusals says how long to wait."""

    def status_of(self, refusal: RequestRefused) -> int:
        """Return a refusal's status as this vendor's server states it."""
        return self.overloaded if refusal.status == 529 else refusal.status


def _break_off(message: str, request_id: str) -> bytes:
    error = {"type": "overloaded_error", "message": message}
    return wire.encode_event("error", {"error": error, "request_id": request_id})


def _break_off_content(message: str, _: str) -> bytes:
    error = gemini_wire.build_gemini_error(RequestRefused(message), 503)
    return b"data: %b\r\n\r\n" % wire.encode_json(error)


def _name_as_openai(headers: Headers) -> Headers:
    """Return the limits under OpenAI's names; tokens are those of the input."""
    made = []
    for name, value in headers:
        kind, _, part = name.removeprefix("anthropic-ratelimit-").rpartition("-")
        if kind in ("requests", "input-tokens"):
            made.append((f"x-ratelimit-{part}-{kind.removeprefix('input-')}", value))
    return made


MESSAGES = WireFormat(
    read=lambda body, _: body,
    events=lambda message, _: wire.build_events(message),
    whole=lambda message, _: message,
    error=lambda refusal, _, request_id: wire.build_error(refusal, request_id),
    break_off=_break_off,
    overloaded=529,
)
_CHAT = WireFormat(
    read=lambda body, _: chat_wire.read_chat(body),
    events=lambda message, _: chat_wire.build_chunks(message),
    whole=lambda message, _: chat_wire.build_whole(message),
    error=lambda refusal, *_: responses_wire.build_openai_error(refusal),
    break_off=_break_off,
    limits=_name_as_openai,
)
_RESPONSES = WireFormat(
    read=lambda body, _: responses_wire.read_responses(body),
    events=responses_wire.build_response_events,
    whole=responses_wire.build_response,
    error=lambda refusal, *_: responses_wire.build_openai_error(refusal),
    break_off=lambda message, _: responses_wire.build_failure_event(message),
    limits=_name_as_openai,
)
_GEMINI = WireFormat(
    read=gemini_wire.read_gemini,
    events=gemini_wire.build_content_events,
    whole=gemini_wire.build_content_response,
    error=lambda refusal, status, _: gemini_wire.build_gemini_error(refusal, status),
    break_off=_break_off_content,
    limits=lambda _: [],
    has_wait=False,
)
_PATHS = {"/messages": MESSAGES, "/chat/completions": _CHAT, "/responses": _RESPONSES}


def find_format(method: str, path: str) -> WireFormat | None:
    """Return the format of requests for a message to a path of this server; None for any other path."""
    if method != "POST":
        return None
    if gemini_wire.is_gemini(path):
        return _GEMINI
    end = path.rstrip("/")
    return _PATHS.get(end.removeprefix("/v1")) if end.startswith("/v1/") else None


def format_at(path: str) -> WireFormat | None:
    """Return the format of requests for a message to a path of any server; None for any other path."""
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return _GEMINI
    return next((found for end, found in _PATHS.items() if path.endswith(end)), None)
