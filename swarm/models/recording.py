"""Keeps the requests to a model's server and its replies in a folder (`SWARM_RECORD`), without apparent secrets.

Each process appends to a file of its own, one JSON document a line. `{"part": NAME, "value": …}` is a part of requests (a message, the
tools, the system prompt), written once; requests refer to it by that name. `{"exchange": {…}}` is a request with its reply:
`swarm.rehearsal.recorded` reads them. Headers are kept by a list of harmless names, and bodies only of JSON and text. A fault of the folder
is logged and disturbs nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from swarm.core.errors import ModelError
from swarm.core.log import EventLog
from swarm.core.secrets import REMOVED, strip_secrets
from swarm.models.codecs import codec_at
from swarm.models.events import read_events
from swarm.models.reply import ReplyBuilder, split_message

if TYPE_CHECKING:
    from httpx2 import Client, Request, Response

    from swarm.models import Block

_log = EventLog(__name__)

_LISTS = ("messages", "input", "contents")
PARTS = ("tools", "system", "instructions", "systemInstruction", *_LISTS)
"""Fields of a request that its successors repeat."""
_KEPT_HEADERS = ("content-type", "request-id", "x-request-id", "retry-after", "anthropic-version", "anthropic-beta")
_KEPT_FAMILIES = ("anthropic-ratelimit-", "x-ratelimit-")
_LONGEST_NAMED = 200
"""Longest value that its name makes a secret."""


class Recorder:
    """Appends exchanges to this process's file in a folder. Safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._process = 0
        self._file = folder
        self._written: set[str] = set()

    def tap(self, client: Client) -> None:
        """Record all requests of this client from now on."""
        client._transport = _TappedTransport(client._transport, self)
        client._mounts = {pattern: inner and _TappedTransport(inner, self) for pattern, inner in client._mounts.items()}

    def keep(self, exchange: dict[str, Any], body: bytes) -> None:
        """Append an exchange whose request had this body."""
        lines: list[dict[str, Any]] = []
        try:
            with self._lock:
                if self._process != os.getpid():
                    self._begin_file()
                is_text = _is_text(exchange.get("request_headers", {}))
                exchange["request"] = self._name_parts(_parse(body), lines) if is_text else None
                lines.append({"exchange": exchange})
                text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
                fresh = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                with os.fdopen(fresh, "wb") as file:
                    file.write(text.encode("utf-8", "surrogatepass"))
                self._written.update(line["part"] for line in lines if "part" in line)
        except OSError as error:
            _log.warning("recording.failed", folder=self._folder, error=error.strerror)

    def _begin_file(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process, self._written = os.getpid(), set()
        self._file = self._folder / f"{time.time_ns()}-{self._process}.jsonl"

    def _name_parts(self, request: Any, lines: list[dict[str, Any]]) -> Any:
        if not isinstance(request, dict):
            return without_secrets(request)
        made = without_secrets({name: value for name, value in request.items() if name not in PARTS})
        for name in PARTS:
            value = request.get(name)
            if name in _LISTS and isinstance(value, list):
                made[name] = [self._name(one, lines) for one in value]
            elif value is not None:
                made[name] = self._name(value, lines)
        return made

    def _name(self, value: Any, lines: list[dict[str, Any]]) -> str:
        text = json.dumps(value, sort_keys=True).encode()
        name = hashlib.blake2b(text, digest_size=12).hexdigest()
        if name not in self._written and not any(line["part"] == name for line in lines):
            lines.append({"part": name, "value": without_secrets(value)})
        return name


@functools.cache
def recorder_of(folder: Path) -> Recorder:
    """Return this process's recorder for the folder."""
    return Recorder(folder)


def without_secrets(value: Any) -> Any:
    """Copy a JSON value without its apparent secrets; the name of an entry can make its value one."""
    match value:
        case str():
            return strip_secrets(value).text
        case list():
            return [without_secrets(one) for one in value]
        case dict():
            return {name: _strip_entry(name, one) for name, one in value.items()}
    return value


def _strip_entry(name: str, value: Any) -> Any:
    stripped = without_secrets(value)
    is_short = isinstance(value, str) and stripped == value and len(value) <= _LONGEST_NAMED
    return REMOVED if is_short and strip_secrets(f'{name}="{value}"').removed else stripped


class _TappedTransport(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.BaseTransport, recorder: Recorder) -> None:
        self._inner, self._recorder = inner, recorder

    def handle_request(self, request: Request) -> Response:
        began, body = time.time(), request.read()
        about = {"began": began, "host": request.url.host, "method": request.method, "path": request.url.path}
        about["request_headers"] = _harmless(request.headers)
        try:
            response = self._inner.handle_request(request)
        except Exception as error:
            self._recorder.keep({**about, "failure": without_secrets(f"{type(error).__name__}: {error}")}, body)
            raise
        about |= {"status": response.status_code, "headers": _harmless(response.headers)}
        response.stream = _TappedStream(response, about, body, self._recorder)
        return response

    def close(self) -> None:
        self._inner.close()


class _TappedStream(httpx2.SyncByteStream):
    """The bytes of a response in passing; they are kept when it is closed."""

    def __init__(self, response: Response, about: dict[str, Any], body: bytes, recorder: Recorder) -> None:
        self._inner, self._coding = response.stream, response.headers.get("content-encoding")
        self._about, self._body, self._recorder = about, body, recorder
        self._chunks: list[bytes] = []
        self._ended = self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._inner:  # type: ignore[union-attr]
            self._chunks.append(chunk)
            yield chunk
        self._ended = True

    def close(self) -> None:
        self._inner.close()  # type: ignore[union-attr]
        if self._closed:
            return
        self._closed = True
        data, coding = b"".join(self._chunks), self._coding
        if coding:
            try:
                data = httpx2.Response(200, headers={"content-encoding": coding}, content=data).content
            except httpx2.DecodingError:  # cut off
                data = b""
        told = {**self._about, "seconds": round(time.time() - self._about["began"], 3), "whole": self._ended}
        self._recorder.keep(told | describe_reply(told, data), self._body)


def describe_reply(about: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """Return the reply's text as it came, or its blocks if a secret may be spread over events. Other types of content are left out."""
    if not _is_text(about["headers"]):
        return {"blocks": [], "stop_reason": ""}
    blocks, reason = read_blocks(about["path"], about["headers"].get("content-type", ""), data)
    stripped = without_secrets(blocks)
    if stripped != blocks:
        return {"blocks": stripped, "stop_reason": reason}
    return {"body": strip_secrets(data.decode(errors="replace")).text}


def read_blocks(path: str, kind: str, data: bytes) -> tuple[list[Block], str]:
    """Read the blocks of a reply in any format, and why it stopped: an empty reason if it was cut off, no blocks if it is no reply."""
    builder = ReplyBuilder()
    try:
        for event in _read_any(path, kind.partition(";")[0], data):
            builder.add(event)
        if (reply := builder.finish(None)) is not None:
            return reply.content, reply.stop_reason
        builder.add({"type": "message_stop"})
        return (cut.content, "") if (cut := builder.finish(None)) is not None else ([], "")
    except (ValueError, KeyError, TypeError, AttributeError, ModelError):
        return [], ""


def _read_any(path: str, kind: str, data: bytes) -> Iterator[Mapping[str, Any]]:
    documents = (
        [json.loads(data)]
        if kind == "application/json"
        else (json.loads(one) for _, one in read_events([data]) if one.strip() != b"[DONE]")
    )
    if (found := codec_at(path)) is not None:
        reader = found.reader("recorded")
        for document in documents:
            yield from reader.read(document)
        yield from reader.end(said=kind == "application/json" or b"[DONE]" in data)
    elif kind == "application/json":
        yield from split_message(documents[0])  # type: ignore[index]
    else:
        yield from documents


def _harmless(headers: Any) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name.lower() in _KEPT_HEADERS or name.lower().startswith(_KEPT_FAMILIES)
    }


def _is_text(headers: Mapping[str, str]) -> bool:
    """Whether a body is JSON or text; one without a type is read as such by the adapters."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("", "application/json") or kind.startswith("text/") or kind.endswith("+json")


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")
