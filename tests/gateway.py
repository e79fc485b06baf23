"""A gateway in front of the rehearsal server that differs from Anthropic's as other servers do: each quirk is a row."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Body = dict[str, Any]
Events = list[Body]


@dataclass(frozen=True)
class Answer:
    """An answer in place of the server's."""

    status: int
    body: Any
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Quirk:
    """How one kind of server differs."""

    name: str
    refuse: Callable[[Body], Answer | None] = lambda body: None
    """The refusal of a request for a message, if it is refused."""
    forward: Callable[[Body], Body] = lambda body: body
    """The request as this server takes it."""
    change: Callable[[Events], Events] = lambda events: events
    """The events of a reply as this server sends them."""
    reply: Callable[[Body, Events], Events] = lambda body, events: events
    """The same, where they depend on the request."""
    document: Callable[[str, Body], Body] = lambda path, document: document
    """Other documents as this server sends them, and whole messages, by path."""
    key: str = ""
    """The only key that it takes; empty: any."""
    key_header: str = "authorization"
    """Where it reads the key."""
    hides: tuple[str, ...] = ()
    """Beginnings of the names of headers that it does not send."""
    whole: bool = False
    """It answers in one piece, whatever it was asked for."""
    lacks: tuple[str, ...] = ()
    """Other paths that it does not have."""
    path: str = ""
    """The beginning of all its paths."""


class Gateway:
    """A server on this host with one quirk. `bodies` are the requests for messages that it saw."""

    def __init__(self, upstream: str, quirk: Quirk) -> None:
        self.upstream, self.quirk = upstream, quirk
        self.bodies: list[Body] = []
        self.refused = 0
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                gateway.serve(self, None)

            def do_POST(self) -> None:
                gateway.serve(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, handler: BaseHTTPRequestHandler, data: bytes | None) -> None:
        path = handler.path.partition("?")[0]
        if not path.startswith(self.quirk.path):
            return _send(handler, Answer(404, b"no such page", "text/plain"))
        path = path.removeprefix(self.quirk.path)
        handler.path = handler.path.removeprefix(self.quirk.path)
        if path in self.quirk.lacks:
            return _send(handler, Answer(404, {"detail": "Not Found"}))
        if self.quirk.key and self.quirk.key not in (handler.headers.get(self.quirk.key_header) or ""):
            return _send(handler, Answer(401, {"error": {"type": "authentication_error", "message": "invalid key"}}))
        if path != "/v1/messages" or data is None:
            return _send(handler, self._documented(path, self._pass_on(handler, data)))
        body: Body = json.loads(data)
        self.bodies.append(body)
        if (refusal := self.quirk.refuse(body)) is not None:
            self.refused += 1
            return _send(handler, refusal)
        answer = self._documented(path, self._pass_on(handler, json.dumps(self.quirk.forward(body)).encode()))
        if answer.kind.startswith("text/event-stream"):
            events = self.quirk.change(
                [json.loads(line[6:]) for line in answer.body.decode().split("\n") if line[:6] == "data: "]
            )
            events = self.quirk.reply(body, events)
            if self.quirk.whole:
                answer = Answer(answer.status, _join(events))
            else:
                text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
                answer = replace(answer, body=text.encode())
        _send(handler, answer)

    def _documented(self, path: str, answer: Answer) -> Answer:
        if answer.status != 200 or answer.kind != "application/json":
            return answer
        return replace(answer, body=self.quirk.document(path, json.loads(answer.body)))

    def _pass_on(self, handler: BaseHTTPRequestHandler, data: bytes | None) -> Answer:
        headers = {
            name: value for name, value in handler.headers.items() if name.lower() not in ("host", "content-length")
        }
        request = Request(self.upstream + handler.path, data, headers)
        try:
            with urlopen(request, timeout=30) as answer:
                kept = [(name, value) for name, value in answer.headers.items() if self._shows(name.lower())]
                return Answer(answer.status, answer.read(), answer.headers.get("content-type", ""), tuple(kept))
        except HTTPError as error:
            return Answer(error.code, error.read(), error.headers.get("content-type", ""))

    def _shows(self, name: str) -> bool:
        return name.startswith(("request-id", "anthropic-")) and not name.startswith(self.quirk.hides or ("none",))


@contextmanager
def gateway_of(upstream: str, quirk: Quirk) -> Iterator[Gateway]:
    gateway = Gateway(upstream, quirk)
    try:
        yield gateway
    finally:
        gateway.close()


def _send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    handler.send_response(answer.status)
    handler.send_header("content-type", answer.kind)
    for name, value in answer.headers:
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def _join(events: Events) -> Body:
    """The whole message of a stream, as servers without streams send it."""
    message: Body = dict(events[0]["message"])
    blocks: dict[int, Body] = {}
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                block, delta = blocks[event["index"]], dict(event["delta"])
                delta.pop("type")
                for name, piece in delta.items():
                    block[name] = block.get(name, "") + piece
            case "message_delta":
                message |= {"stop_reason": event["delta"]["stop_reason"], "usage": message["usage"] | event["usage"]}
    for block in blocks.values():
        if (text := block.pop("partial_json", None)) is not None:
            block["input"] = json.loads(text)
    return {**message, "content": [blocks[index] for index in sorted(blocks)]}
