"""Requests that another program encoded, passed on to a model's server: three wire formats, read only as far as a bill needs it.

The bytes of a reply are passed on unchanged, in any format. Of a request the model's name and the bound of the reply are written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from swarm.models import Told
from swarm.models.chat_reply import ChatReader
from swarm.models.reply import ReplyBuilder, split_message
from swarm.models.responses_reply import read_usage

_SERVERS_TOOLS = (
    *("web_search", "web_fetch", "code_execution", "mcp", "file_search", "code_interpreter", "image_generation"),
    *("advisor", "computer_use_preview"),
)
"""Beginnings of the types of tools that a model's server carries out by itself."""
_LEAST_THINKING = 1_024
"""The shortest thinking that the Messages API lets a request ask for, in tokens."""


class Wire(NamedTuple):
    """A wire format."""

    name: str
    path: str
    """The end of its requests' path."""
    longest: tuple[str, ...]
    """Fields of a request that bound the reply; the last is written where there is none."""


WIRES = (
    Wire("messages", "/messages", ("max_tokens",)),
    Wire("chat", "/chat/completions", ("max_completion_tokens", "max_tokens")),
    Wire("responses", "/responses", ("max_output_tokens",)),
)


def find_wire(path: str) -> Wire | None:
    """Return the format of requests to a path; None for any other path."""
    plain = path.partition("?")[0].rstrip("/")
    return next((wire for wire in WIRES if plain in (wire.path, f"/v1{wire.path}")), None)


class PassedRequest:
    """A request that another program encoded. Raises `ValueError` for one that is no JSON object with a model's name."""

    def __init__(self, wire: Wire, body: bytes) -> None:
        self.wire, self.size = wire, len(body)
        self._body: dict[str, Any] = json.loads(body)
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
        given = [self._body[name] for name in self.wire.longest if isinstance(self._body.get(name), int)]
        return min(given) if given else None

    def drop_servers_tools(self) -> None:
        """Take out the tools that the model's server would carry out: they reach places that the program may not."""
        tools = self._body.get("tools")
        if isinstance(tools, list):
            self._body["tools"] = [one for one in tools if not str(one.get("type", "")).startswith(_SERVERS_TOOLS)]
        self._body.pop("mcp_servers", None)
        self._body.pop("web_search_options", None)

    def encode(self, model: str, room: int | None) -> bytes:
        """Return the body for this name of the model at its server, with at most `room` tokens of reply."""
        body = {**self._body, "model": model}
        # Codex adds it, and strict servers refuse it.
        body.pop("client_metadata", None)
        if room is not None:
            for name in self.wire.longest:
                body.pop(name, None)
            body[self.wire.longest[-1] if self.longest is None else self._field()] = room
            _bound_thinking(body, room)
        if self.wire.name == "chat" and body.get("stream"):
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return json.dumps(body, ensure_ascii=False).encode()

    def _field(self) -> str:
        return next(name for name in self.wire.longest if name in self._body)


def _bound_thinking(body: dict[str, Any], room: int) -> None:
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and isinstance(thinking.get("budget_tokens"), int):
        most = min(thinking["budget_tokens"], room - 1)
        body["thinking"] = {**thinking, "budget_tokens": most} if most >= _LEAST_THINKING else {"type": "disabled"}


class PassedReply:
    """The bytes of a reply in passing, and its usage so far. Unreadable bytes are not counted."""

    def __init__(self, wire: Wire, model: str, *, whole: bool) -> None:
        """`whole`: the server answers in one piece, not with a stream of events."""
        self._wire, self._whole, self._rest = wire, whole, b""
        self._builder, self._chat = ReplyBuilder(), ChatReader(model)
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


def encode_refusal(wire: Wire | None, kind: str, message: str) -> bytes:
    """Return the body of a refusal, as the format's own server would write it."""
    if wire is None or wire.name == "messages":
        return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    return json.dumps({"error": {"message": message, "type": kind, "code": kind}}).encode()
