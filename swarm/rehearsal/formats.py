"""The formats that the rehearsal server speaks: each reads requests as the Messages API's, and writes replies in its own form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from swarm.rehearsal import chat_wire, responses_wire, wire
from swarm.rehearsal.connection import RequestRefused

Body = dict[str, Any]


class WireFormat(NamedTuple):
    """One format."""

    read: Callable[[Any, str], Any]
    """Returns a body and path as a body of the Messages API. Raises `RequestRefused`."""
    events: Callable[[Body, Body], list[bytes]]
    """Builds the stream of a message that answers a request with this body."""
    whole: Callable[[Body, Body], Body]
    """Builds the reply in one piece."""
    error: Callable[[RequestRefused, str], Body]
    """Builds an error's body, for a request with this id."""
    break_off: Callable[[str, str], bytes]
    """Builds the event of an overload in the middle of a reply, from a message and the request's id."""


def _break_off(message: str, request_id: str) -> bytes:
    error = {"type": "overloaded_error", "message": message}
    return wire.encode_event("error", {"error": error, "request_id": request_id})


_MESSAGES = WireFormat(
    read=lambda body, _: body,
    events=lambda message, _: wire.build_events(message),
    whole=lambda message, _: message,
    error=wire.build_error,
    break_off=_break_off,
)
_CHAT = WireFormat(
    read=lambda body, _: chat_wire.read_chat(body),
    events=lambda message, _: chat_wire.build_chunks(message),
    whole=lambda message, _: chat_wire.build_whole(message),
    error=lambda refusal, _: responses_wire.build_openai_error(refusal),
    break_off=_break_off,
)
_RESPONSES = WireFormat(
    read=lambda body, _: responses_wire.read_responses(body),
    events=responses_wire.build_response_events,
    whole=responses_wire.build_response,
    error=lambda refusal, _: responses_wire.build_openai_error(refusal),
    break_off=lambda message, _: responses_wire.build_failure_event(message),
)
_PATHS = {"/messages": _MESSAGES, "/chat/completions": _CHAT, "/responses": _RESPONSES}


def find_format(method: str, path: str) -> WireFormat | None:
    """Return the format of requests for a message to a path of this server; None for any other path."""
    end = path.rstrip("/").removeprefix("/v1")
    return _PATHS.get(end) if method == "POST" and end != path.rstrip("/") else None


def format_at(path: str) -> WireFormat | None:
    """Return the format of requests for a message to a path of any server; None for any other path."""
    return next((found for end, found in _PATHS.items() if path.endswith(end)), None)
