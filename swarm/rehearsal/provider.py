"""The server's side beside the script: how a request is measured and billed, and what is refused.

Tests bring a provider that holds requests to the API's own rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from swarm.rehearsal.connection import Headers, Request, RequestRefused
from swarm.rehearsal.conversation import Conversation
from swarm.rehearsal.scenario import ScriptedReply
from swarm.rehearsal.tree import answer_tree

Play = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes a message of a request's body. Raises `RequestRefused`."""
_CHARACTERS_PER_TOKEN = 4
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class InputUsage(NamedTuple):
    """How the input of one request divides; the classes add up to the whole."""

    input_tokens: int
    cache_creation_5m_tokens: int = 0
    cache_creation_1h_tokens: int = 0
    cache_read_input_tokens: int = 0

    @property
    def fresh_tokens(self) -> int:
        """What was not read from the cache: all that counts for a rate limit."""
        return self.input_tokens + self.cache_creation_5m_tokens + self.cache_creation_1h_tokens


class Measured(Protocol):
    """The size of a request, and what stands for it."""

    @property
    def digest(self) -> bytes:
        """Stands for tools, system prompt and messages."""

    @property
    def total_tokens(self) -> int:
        """The estimate for the whole request."""


class _Size(NamedTuple):
    digest: bytes
    total_tokens: int


class Provider:
    """A lenient one: no prompt cache, no limits, no paths of its own, and nothing is refused that can be answered."""

    scripts: dict[str, Callable[[Conversation], ScriptedReply | None]] = {"tree": answer_tree}
    """The parts of scenarios that are written in Python."""

    def check(self, body: dict[str, Any], betas: str, *, counting: bool = False) -> None:
        """Raises `RequestRefused` for a body that the API would not take; `counting` is for `count_tokens`."""
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise RequestRefused("messages: at least one message is required")
        if not counting and not isinstance(body.get("max_tokens"), int):
            raise RequestRefused("max_tokens: Field required")

    def measure(self, body: dict[str, Any]) -> Measured:
        """The size of a request that has passed the checks."""
        text = _encode([body.get("tools"), body.get("system"), body["messages"]])
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return _Size(digest, max(1, len(text) // _CHARACTERS_PER_TOKEN))

    def look_up(self, scope: str, measured: Measured) -> InputUsage:
        """Divide the input of a request that arrives now; `scope` is the model and the key."""
        return InputUsage(measured.total_tokens)

    def store(self, scope: str, measured: Measured) -> None:
        """The reply to a request begins now."""

    def admit(self, fresh_tokens: int, in_flight: int) -> None:
        """Take one request of so much input, of so many that are under way with it. Raises `RequestRefused`."""

    def spend(self, output_tokens: int) -> None:
        """A reply of so much ends."""

    def headers(self) -> Headers:
        """Headers of each response."""
        return []

    def bind_thinking(self, body: dict[str, Any]) -> str:
        """What the thinking of the reply to this request is bound to."""
        return ""

    def summarize(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        """The block that stands for a conversation."""
        return {"type": "compaction", "content": text, "encrypted_content": "rehearsed", "signature": "rehearsed"}

    def route(self, request: Request, path: str, play: Play) -> bytes | None:
        """The JSON of a path that the server does not have; None closes the connection without a word."""
        raise RequestRefused(f"{request.method} {request.path}: not found", status=404, kind="not_found_error")

    def stats(self) -> dict[str, Any]:
        """Totals of its own."""
        return {}


def estimate_tokens(value: Any) -> int:
    """The estimate for something the model writes."""
    return max(1, len(_encode(value)) // _CHARACTERS_PER_TOKEN)
