"""The server's provider beside the script: it measures and bills requests, and refuses invalid ones.

Tests use a provider that enforces the API's own rules.
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
"""Function that makes a message from a request's body. Raises `RequestRefused`."""
_CHARACTERS_PER_TOKEN = 4
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class InputUsage(NamedTuple):
    """Classes of one request's input tokens, which add up to the whole."""

    input_tokens: int
    cache_creation_5m_tokens: int = 0
    cache_creation_1h_tokens: int = 0
    cache_read_input_tokens: int = 0

    @property
    def fresh_tokens(self) -> int:
        """Input tokens not read from the cache, which alone count for a rate limit."""
        return self.input_tokens + self.cache_creation_5m_tokens + self.cache_creation_1h_tokens


class Measured(Protocol):
    """The size of a request, and its digest."""

    @property
    def digest(self) -> bytes:
        """Digest of tools, system prompt and messages."""

    @property
    def total_tokens(self) -> int:
        """Estimate for the whole request."""


class _Size(NamedTuple):
    digest: bytes
    total_tokens: int


class Provider:
    """A lenient provider: no prompt cache, limits or paths of its own; it refuses only unanswerable requests."""

    scripts: dict[str, Callable[[Conversation], ScriptedReply | None]] = {"tree": answer_tree}
    """Parts of scenarios that are written in Python."""

    def check(self, body: dict[str, Any], betas: str, *, counting: bool = False) -> None:
        """Check a body. Raises `RequestRefused` if the API would refuse it; `counting` is for `count_tokens`."""
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise RequestRefused("messages: at least one message is required")
        if not counting and not isinstance(body.get("max_tokens"), int):
            raise RequestRefused("max_tokens: Field required")

    def measure(self, body: dict[str, Any]) -> Measured:
        """Measure a valid request."""
        text = _encode([body.get("tools"), body.get("system"), body["messages"]])
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return _Size(digest, max(1, len(text) // _CHARACTERS_PER_TOKEN))

    def look_up(self, scope: str, measured: Measured) -> InputUsage:
        """Divide the input of an arriving request; `scope` is the model and the key."""
        return InputUsage(measured.total_tokens)

    def store(self, scope: str, measured: Measured) -> None:
        """Cache the request's prefix when its reply begins."""

    def admit(self, fresh_tokens: int, in_flight: int) -> None:
        """Admit one request of this size; `in_flight` includes it. Raises `RequestRefused`."""

    def spend(self, output_tokens: int) -> None:
        """Count the output tokens of an ended reply."""

    def headers(self) -> Headers:
        """Headers of each response."""
        return []

    def bind_thinking(self, body: dict[str, Any]) -> str:
        """The value that binds the reply's thinking to this request."""
        return ""

    def summarize(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        """Make the block that replaces a conversation."""
        return {"type": "compaction", "content": text, "encrypted_content": "rehearsed", "signature": "rehearsed"}

    def route(self, request: Request, path: str, play: Play) -> bytes | None:
        """The JSON for another path; None closes the connection without a reply."""
        raise RequestRefused(f"{request.method} {request.path}: not found", status=404, kind="not_found_error")

    def stats(self) -> dict[str, Any]:
        """Totals of the provider itself."""
        return {}


def estimate_tokens(value: Any) -> int:
    """Estimate the tokens of model output."""
    return max(1, len(_encode(value)) // _CHARACTERS_PER_TOKEN)
