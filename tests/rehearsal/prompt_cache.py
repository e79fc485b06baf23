"""The prompt cache, simulated: which part of a request's prefix is read, which is written, what that costs in tokens.

A prefix is the tools, then the system prompt, then the messages, block by block. Each block's digest is chained to the
one before, so a digest stands for everything up to its block, and measuring is linear in the request. As with the real
cache an entry exists only once the reply that wrote it has begun: look up first, `store` when the reply begins.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from swarm.rehearsal.provider import InputUsage

_CHARACTERS_PER_TOKEN = 4
_LOOKBACK_BLOCKS = 20
_TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}
_PRUNE_AFTER_WRITES = 10_000

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Breakpoint(NamedTuple):
    """A cache mark: the block it is on, and how long its entry lives."""

    block: int
    ttl: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """A request measured block by block."""

    digests: list[bytes]
    characters: list[int]
    """Up to and with each block."""
    breakpoints: list[Breakpoint]

    @property
    def digest(self) -> bytes:
        """Stands for the whole request: tools, system and messages."""
        return self.digests[-1]

    @property
    def total_tokens(self) -> int:
        """The estimate for the whole request."""
        return max(1, self.tokens_up_to(len(self.digests) - 1))

    def tokens_up_to(self, block: int) -> int:
        """The estimate for everything up to and with `block`; -1 is the empty prefix."""
        return self.characters[block] // _CHARACTERS_PER_TOKEN if block >= 0 else 0


class _Entry(NamedTuple):
    expires: float
    ttl: str


class PromptCache:
    """The entries of all models and keys."""

    def __init__(self, minimum_tokens: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._minimum_tokens = minimum_tokens
        self._clock = clock
        self._entries: dict[tuple[str, bytes], _Entry] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def look_up(self, scope: str, prefix: Prefix) -> InputUsage:
        """Divide the input of a request that arrives now; `scope` is the model and the key. What is read lives on."""
        marks = self._cacheable(prefix)
        with self._lock:
            read = self._longest_hit(scope, prefix, marks)
        written = {"5m": 0, "1h": 0}
        end = read
        for mark in marks:
            if mark.block > end:
                written[mark.ttl] += prefix.tokens_up_to(mark.block) - prefix.tokens_up_to(end)
                end = mark.block
        return InputUsage(
            input_tokens=prefix.total_tokens - prefix.tokens_up_to(end),
            cache_creation_5m_tokens=written["5m"],
            cache_creation_1h_tokens=written["1h"],
            cache_read_input_tokens=prefix.tokens_up_to(read),
        )

    def store(self, scope: str, prefix: Prefix) -> None:
        """Write the entries of a request whose reply begins now."""
        marks = self._cacheable(prefix)
        if not marks:
            return
        now = self._clock()
        with self._lock:
            for mark in marks:
                self._entries[scope, prefix.digests[mark.block]] = _Entry(now + _TTL_SECONDS[mark.ttl], mark.ttl)
            self._writes += len(marks)
            if self._writes >= _PRUNE_AFTER_WRITES:
                self._writes = 0
                self._entries = {key: entry for key, entry in self._entries.items() if entry.expires > now}

    def _cacheable(self, prefix: Prefix) -> list[Breakpoint]:
        return [mark for mark in prefix.breakpoints if prefix.tokens_up_to(mark.block) >= self._minimum_tokens]

    def _longest_hit(self, scope: str, prefix: Prefix, marks: list[Breakpoint]) -> int:
        now = self._clock()
        for mark in reversed(marks):
            for block in range(mark.block, max(-1, mark.block - _LOOKBACK_BLOCKS), -1):
                key = (scope, prefix.digests[block])
                entry = self._entries.get(key)
                if entry is not None and entry.expires > now:
                    self._entries[key] = _Entry(now + _TTL_SECONDS[entry.ttl], entry.ttl)
                    return block
        return -1


def measure_request(body: dict[str, Any]) -> Prefix:
    """Digest and measure a request that has passed the checks."""
    digests: list[bytes] = []
    characters: list[int] = []
    breakpoints: list[Breakpoint] = []
    digest, total = b"", 0
    for salt, block in _prefix_blocks(body):
        mark = block.get("cache_control")
        text = _encode(_unmarked(block))
        digest = hashlib.blake2b(
            f"{salt}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16, key=digest
        ).digest()
        total += len(text)
        digests.append(digest)
        characters.append(total)
        if mark is None and block.get("type") == "tool_result":
            mark = _inner_mark(block)
        if mark is not None:
            breakpoints.append(Breakpoint(len(digests) - 1, mark.get("ttl", "5m")))
    automatic = body.get("cache_control")
    if automatic is not None and (not breakpoints or breakpoints[-1].block != len(digests) - 1):
        breakpoints.append(Breakpoint(len(digests) - 1, automatic.get("ttl", "5m")))
    return Prefix(digests, characters, breakpoints)


def _prefix_blocks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every block with what else its digest depends on."""
    for tool in body.get("tools") or ():
        yield "tool", tool
    system = body.get("system")
    for block in [{"type": "text", "text": system}] if isinstance(system, str) and system else system or ():
        yield "system", block
    # These leave the cached tools and system prompt alone but not the messages.
    salt = _encode([body.get("tool_choice"), body.get("thinking"), body.get("output_config")])
    for message in body["messages"]:
        content = message["content"]
        salt += message["role"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield salt, block
            salt = ""


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    """The block without cache marks: moving a mark does not change the prefix."""
    if "cache_control" in block:
        block = {key: value for key, value in block.items() if key != "cache_control"}
    inner = block.get("content")
    if isinstance(inner, list) and any("cache_control" in part for part in inner):
        return {**block, "content": [_unmarked(part) for part in inner]}
    return block


def _inner_mark(block: dict[str, Any]) -> dict[str, Any] | None:
    inner = block.get("content")
    marks = [part.get("cache_control") for part in inner] if isinstance(inner, list) else []
    return next((mark for mark in reversed(marks) if mark is not None), None)
