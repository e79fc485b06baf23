"""Requests that another program encoded, passed on to a model's server: four wire formats, read only as far as a bill needs it.

The bytes of a reply are passed on unchanged, in any format. Of a request the model's name and the bound of the reply are written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from swarm.core.plain import clean_text
from swarm.models import Told
from swarm.models.chat_reply import ChatReader
from swarm.models.gemini_reply import GeminiReader
from swarm.models.reply import ReplyBuilder, split_message
from swarm.models.responses_reply import read_usage

_SERVERS_TOOLS = (
    *("web_search", "web_fetch", "code_execution", "mcp", "file_search", "code_interpreter", "image_generation"),
    *("advisor", "computer_use_preview"),
)
"""Beginnings of the types of tools that a model's server carries out by itself."""
_OWN = "functionDeclarations"
"""The tools of the Gemini API that the asking program carries out."""
_LEAST_THINKING = 1_024
"""The shortest thinking that the Messages API lets a request ask for, in tokens."""


class Wire(NamedTuple):
    """A wire format."""

    name: str
    path: str
    """The end of its requests' path; empty where the path names the model."""
    longest: tuple[str, ...]
    """Fields of a request that bound the reply; the last is written where there is none."""
    bounds: str = ""
    """The object of a request with these fields; empty: the request itself."""


WIRES = (
    Wire("messages", "/messages", ("max_tokens",)),
    Wire("chat", "/chat/completions", ("max_completion_tokens", "max_tokens")),
    Wire("responses", "/responses", ("max_output_tokens",)),
    Wire("gemini", "", ("maxOutputTokens",), "generationConfig"),
)
_MODELS = re.compile(r"(?:/v1(?:beta)?)?/models/([^/:]+):((?:streamG|g)enerateContent)")
"""Paths of the Gemini API: the model and the method."""
_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 503: "UNAVAILABLE"}


def find_wire(path: str) -> Wire | None:
    """Return the format of requests to a path; None for any other path."""
    plain = path.partition("?")[0].rstrip("/")
    if _MODELS.fullmatch(plain):
        return WIRES[-1]
    return next((wire for wire in WIRES if wire.path and plain in (wire.path, f"/v1{wire.path}")), None)


class PassedRequest:
    """A request that another program encoded. Raises `ValueError` for one that is no JSON object with a model's name."""

    def __init__(self, wire: Wire, body: bytes, path: str = "") -> None:
        """`path` is the request's own, which names the model in the Gemini API."""
        self.wire, self.size = wire, len(body)
        self._body: dict[str, Any] = json.loads(body)
        self._method = ""
        if isinstance(self._body, dict) and (named := _MODELS.fullmatch(path.partition("?")[0].rstrip("/"))):
            self._body["model"], self._method = unquote(named[1]), named[2]
        if not isinstance(self._body, dict) or not isinstance(self._body.get("model"), str):
            raise ValueError("the request names no model")

    @property
    def model(self) -> str:
        """The model's name, as the program wrote it."""
        return str(self._body["model"])

    @property
    def offers_tools(self) -> bool:
        """Whether the reply can call tools: requests beside a conversation offer none."""
        return bool(self._body.get("tools"))

    @property
    def longest(self) -> int | None:
        """The longest reply that it asks for, in tokens; None without a bound."""
        bounds = self._bounds()
        given = [bounds[name] for name in self.wire.longest if isinstance(bounds.get(name), int)]
        return min(given) if given else None

    def path_at(self, model: str) -> str:
        """Return the path below the server's address, for this name of the model there."""
        if not self._method:
            return self.wire.path
        streams = "?alt=sse" if self._method.startswith("stream") else ""
        return f"/models/{quote(model, safe='')}:{self._method}{streams}"

    def drop_servers_tools(self) -> None:
        """Take out the tools that the model's server would carry out: they reach places that the program may not."""
        tools = self._body.get("tools")
        if isinstance(tools, list) and self._method:
            # Each entry is of one kind, and all kinds but this one are the server's.
            self._body["tools"] = [{_OWN: one[_OWN]} for one in tools if isinstance(one, dict) and _OWN in one]
        elif isinstance(tools, list):
            self._body["tools"] = [one for one in tools if not str(one.get("type", "")).startswith(_SERVERS_TOOLS)]
        self._body.pop("mcp_servers", None)
        self._body.pop("web_search_options", None)

    def encode(self, model: str, room: int | None) -> bytes:
        """Return the body for this name of the model at its server, with at most `room` tokens of reply."""
        body = {**self._body, "model": model}
        # Codex adds it, and strict servers refuse it.
        body.pop("client_metadata", None)
        if self._method:
            del body["model"]
        if room is not None:
            field = self.wire.longest[-1] if self.longest is None else self._field()
            bounds = {name: value for name, value in self._bounds().items() if name not in self.wire.longest}
            if self.wire.bounds:
                body[self.wire.bounds] = {**bounds, field: room, **_thinking_within(bounds, room)}
            else:
                for name in self.wire.longest:
                    body.pop(name, None)
                body[field] = room
            _bound_thinking(body, room)
        if self.wire.name == "chat" and body.get("stream"):
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return clean_text(json.dumps(body, ensure_ascii=False)).encode()

    def _bounds(self) -> dict[str, Any]:
        bounds = self._body.get(self.wire.bounds) if self.wire.bounds else self._body
        return bounds if isinstance(bounds, dict) else {}

    def _field(self) -> str:
        return next(name for name in self.wire.longest if name in self._bounds())


def _bound_thinking(body: dict[str, Any], room: int) -> None:
    """Have a reply think less than it may say, where the request says how much it thinks."""
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and isinstance(thinking.get("budget_tokens"), int):
        most = min(thinking["budget_tokens"], room - 1)
        body["thinking"] = {**thinking, "budget_tokens": most} if most >= _LEAST_THINKING else {"type": "disabled"}


def _thinking_within(bounds: dict[str, Any], room: int) -> dict[str, Any]:
    thinking = bounds.get("thinkingConfig")
    if not isinstance(thinking, dict) or not isinstance(thinking.get("thinkingBudget"), int):
        return {}
    return {"thinkingConfig": {**thinking, "thinkingBudget": min(thinking["thinkingBudget"], room - 1)}}


class PassedReply:
    """The bytes of a reply in passing, and its usage so far. Unreadable bytes are not counted."""

    def __init__(self, wire: Wire, model: str, *, whole: bool) -> None:
        """`whole`: the server answers in one piece, not with a stream of events."""
        self._wire, self._whole, self._rest = wire, whole, b""
        self._builder, self._chat, self._gemini = ReplyBuilder(), ChatReader(model), GeminiReader(model)
        self._model, self._begun = model, False
        self.has_ended = False
        """Whether the server has told the whole usage."""

    def read(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        if self._whole:
            self._rest += chunk
            return
        *events, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            data = b"\n".join(line[5:] for line in event.split(b"\n") if line.startswith(b"data:")).strip()
            if data and data != b"[DONE]":
                self._take(data)

    def end(self) -> Told | None:
        """Return the usage once no more bytes follow; None if the reply had not begun."""
        if self._whole and self._rest:
            self._take(self._rest)
        return self._builder.told()

    def _take(self, data: bytes) -> None:
        try:
            document = json.loads(data)
            for event in self._events(document):
                self._builder.add(event)
                self.has_ended = self.has_ended or event["type"] == "message_delta"
        except (ValueError, KeyError, TypeError, AttributeError):
            return

    def _events(self, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        match self._wire.name:
            case "messages":
                yield from split_message(document) if self._whole else (document,)
            case "chat":
                yield from self._chat.read(document)
                if self._chat.usage is not None:
                    yield {"type": "message_delta", "delta": {}, "usage": self._chat.usage}
            case "gemini":
                yield from self._gemini.read(document)
                ends = any(one.get("finishReason") for one in document.get("candidates") or ())
                if ends and self._gemini.usage is not None:
                    yield {"type": "message_delta", "delta": {}, "usage": self._gemini.usage}
            case _:
                yield from self._of_responses(document)

    def _of_responses(self, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if not self._begun:
            self._begun = True
            yield {"type": "message_start", "message": {"model": self._model}}
            yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        if isinstance(words := document.get("delta"), str):
            yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}
        told = document if self._whole else document.get("response") or {}
        if usage := told.get("usage"):
            yield {"type": "message_delta", "delta": {}, "usage": read_usage(usage)}


def encode_refusal(wire: Wire | None, status: int, kind: str, message: str) -> bytes:
    """Return the body of a refusal with a status, as the format's own server would write it."""
    if wire is not None and wire.name == "gemini":
        named = {"code": status, "message": message, "status": _STATUSES.get(status, "FAILED_PRECONDITION")}
        return json.dumps({"error": named}).encode()
    if wire is None or wire.name == "messages":
        return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    return json.dumps({"error": {"message": message, "type": kind, "code": kind}}).encode()
