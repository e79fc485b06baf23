"""A model's server that is on nobody's side: plain asyncio, fixed replies as event streams, no checks.

It plays the same trees as the rehearsal server (`TREE depth=1 fanout=20 steps=4 think=200`), reads of a request only what it needs for
that, and keeps the rest for later: what the prompt cache would have given is worked out once somebody asks, from when each request
came and when its reply began. `python -m bench.neutral` serves until it is told to end; `neutral()` does it for a benchmark.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from swarm.rehearsal.wire import build_events, build_message
from tests.rehearsal.prompt_cache import PromptCache, measure_request

MINIMUM_TOKENS = 1_024
"""Shorter prefixes are not cached: what most models have."""

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_neutral\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_MESSAGES = re.compile(rb'"messages": ?\[')
_ORDER = re.compile(rb"TREE depth=(\d+)(?: fanout=(\d+))?(?: steps=(\d+))?(?: think=(\d+))?")
_REPLY = re.compile(rb'"role": ?"assistant"')
_DONE = re.compile(rb"DONE (\d+)")
_ids = itertools.count(1)


@dataclass(frozen=True)
class Tally:
    """What a server has seen since it was asked last."""

    requests: int
    connections: int
    bytes: int
    """Of the requests' bodies."""
    seconds: float
    """From the first request's arrival to the last reply's end."""
    first: float
    """When the first request came, Unix seconds."""
    cached: float
    """Of all input tokens, the share that is read from the prompt cache."""

    def __str__(self) -> str:
        return (
            f"{self.requests} requests, {self.bytes / 1e3 / max(1, self.requests):.1f} KB each, span {self.seconds:.2f} s, "
            f"{self.cached:.3f} of the input read from the cache"
        )


@dataclass
class _Seen:
    body: bytes
    came: float
    began: float = 0.0
    ended: float = 0.0


@dataclass
class _Book:
    seen: list[_Seen] = field(default_factory=list)
    connections: int = 0
    started: float = field(default_factory=time.time)

    def tally(self) -> dict[str, Any]:
        """Add up what was seen, and forget it."""
        seen, connections = self.seen, self.connections
        self.seen, self.connections = [], 0
        whole = [one for one in seen if one.ended]
        first = min((one.came for one in whole), default=0.0)
        return {
            "requests": len(whole),
            "connections": connections,
            "bytes": sum(len(one.body) for one in whole),
            "seconds": max((one.ended for one in whole), default=0.0) - first,
            "first": first,
            "cached": _share_read(whole),
        }


def _share_read(seen: list[_Seen]) -> float:
    """What the cache would have given: an entry exists from when the first reply that writes it begins."""
    clock = [0.0]
    cache = PromptCache(MINIMUM_TOKENS, clock=lambda: clock[0])
    events = [(one.came, 1, one) for one in seen] + [(one.began, 0, one) for one in seen]
    prefixes: dict[int, tuple[str, Any]] = {}
    read = total = 0
    for at, comes, one in sorted(events, key=lambda event: event[:2]):
        clock[0] = at
        if id(one) not in prefixes:
            body = json.loads(one.body)
            prefixes[id(one)] = (body["model"], measure_request(body))
        model, prefix = prefixes[id(one)]
        if comes:
            usage = cache.look_up(model, prefix)
            read += usage.cache_read_input_tokens
            total += prefix.total_tokens
        else:
            cache.store(model, prefix)
    return read / total if total else 0.0


def _reply(body: bytes) -> tuple[float, bytes]:
    """How long the model thinks, and the events of its reply."""
    messages = _MESSAGES.search(body)
    start = messages.end() if messages else 0
    order = _ORDER.search(body, start)
    if order is None:
        return 0.0, _events([{"type": "text", "text": "no TREE was asked for"}], len(body))
    depth, fanout, steps, think = (int(number or 0) for number in order.groups())
    turn = len(_REPLY.findall(body, start))
    if depth and not turn:
        below = f"TREE depth={depth - 1} fanout={fanout} steps={steps} think={think}"
        content = [
            _call("Agent", description=f"branch {n}", prompt=f"{below} id={n}", subagent_type="general-purpose")
            for n in range(fanout)
        ]
    elif depth:
        content = [{"type": "text", "text": f"DONE {1 + sum(map(int, _DONE.findall(body, start)))}"}]
    elif turn < steps:
        content = [_call("LS", path=".")]
    else:
        content = [{"type": "text", "text": "DONE 1"}]
    return think / 1000, _events(content, len(body))


def _call(name: str, **given: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{next(_ids):08d}", "name": name, "input": given}


def _events(content: list[dict[str, Any]], size: int) -> bytes:
    stop = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": size // 4, "output_tokens": 20}
    return b"".join(build_events(build_message(f"msg_{next(_ids)}", "claude-sonnet-4-5", content, stop, usage)))


class _Connection(asyncio.Protocol):
    """One kept-alive HTTP connection."""

    def __init__(self, book: _Book) -> None:
        self._book = book
        self._buffer = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._book.connections += 1

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end])
            found = _LENGTH.search(head)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            body = bytes(self._buffer[end + 4 : whole])
            del self._buffer[:whole]
            self._serve(head, body)

    def _serve(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /tally"):
            text = json.dumps(self._book.tally()).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text))
            return
        seen = _Seen(body, time.time())
        self._book.seen.append(seen)
        think, events = _reply(body)
        if think:
            asyncio.get_running_loop().call_later(think, self._send, seen, events)
        else:
            self._send(seen, events)

    def _send(self, seen: _Seen, events: bytes) -> None:
        seen.began = time.time()
        self._transport.write(b"%s%x\r\n%s\r\n0\r\n\r\n" % (_HEAD, len(events), events))
        seen.ended = time.time()


async def _main() -> None:
    book = _Book()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(book), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


class Neutral:
    """The running server, as a benchmark sees it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def tally(self) -> Tally:
        """What it has seen since it was asked last; its prompt cache is empty after that."""
        with urllib.request.urlopen(f"{self.url}/tally", timeout=120) as answer:
            return Tally(**json.load(answer))


@contextmanager
def neutral() -> Iterator[Neutral]:
    """Serve in a process of its own."""
    argv = [sys.executable, "-m", "bench.neutral"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Neutral(process.stdout.readline().strip())
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(_main())
