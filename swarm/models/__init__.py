"""The model port: requests that the loop makes of a model, and replies.

The Anthropic adapter (`swarm.models.anthropic`) is the only importer of the SDK; `swarm.models.vendor_model` asks other vendors, and
`swarm.models.router` chooses between them by a model's name. An adapter makes exactly one
attempt per call: when and whether to try again is the loop's decision, because a long wait parks the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel

from swarm.core.usage import Usage as Usage
from swarm.models.facts import NO_FACTS, ModelFacts
from swarm.models.limits import RateLimits as RateLimits

Block = dict[str, Any]
"""A content block in the Messages API's own shape, kept exactly as the API sent it."""


@dataclass(frozen=True)
class ModelRequest:
    """One model call. For the cached prefix, `system` and `tools` never change in a history."""

    model: str
    """A full model id, never an alias."""
    system: str
    messages: list[dict[str, Any]]
    """Messages in the API's shape, without cache marks; the adapter places those.

    Requests of one conversation that share `kept` give the same list, which only grows at its end."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    max_tokens: int = 32_000
    tools_allowed: bool = True
    """False asks for text only (`tool_choice: none`), leaving the tools in the prefix."""
    effort: str | None = None
    summarize: str | None = None
    """Instructions for a summary of the messages, with which later requests begin instead."""
    facts: ModelFacts = NO_FACTS
    """Told facts about the model: the adapter leaves out the refused parts."""
    traceparent: str = ""
    """W3C trace header with the request's span, for the server's traces; no part of the body."""
    kept: dict[str, Any] = field(default_factory=dict)
    """The adapter's state between requests of one conversation, which all share this dict."""


class Reply(BaseModel, frozen=True):
    """A whole, finished reply of the model."""

    content: list[Block]
    """The blocks byte for byte as the API gave them, thinking signatures included."""
    stop_reason: str
    usage: Usage
    """All tokens paid for, including the server's work beside the reply."""
    model: str
    request_id: str | None = None
    request_sha: str = ""
    """SHA-256 of the request's body, as it was sent, in hexadecimal."""


class Told(BaseModel, frozen=True):
    """The usage that the beginning of a reply tells."""

    model: str
    usage: Usage
    """The input as the server counted it. The output is estimated from the received text where the server has not counted it."""
    estimated: Usage
    """The estimated part of `usage`."""


Progress = Callable[[str], None]
"""Called with "" when a reply begins, then now and then with the activity in a few words."""


Begin = Callable[[Told], None]
"""Called when a reply begins, with its input as the server counted it."""


Hear = Callable[[int, Block, str], None]
"""Called for each streamed piece: the block's number, the block as it began, the piece.

Pieces are text, thinking or the input of a call."""


ApplyLimits = Callable[[RateLimits], None]
"""Called with the server's stated limits, for each response and each refused request."""


class Model(Protocol):
    """A model as the loop uses it."""

    def complete(
        self,
        request: ModelRequest,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
        on_begin: Begin | None = None,
    ) -> Reply:
        """Make one attempt and return the whole reply.

        Raises `TransientModelError` or `PermanentModelError`; a stream that ends before `message_stop` is transient.
        Where a reply has begun, the error, or an `Interrupted`, has its `told`.
        """
        ...

    def limit_class(self, model: str) -> str:
        """Name the limits that count requests for this model; equal if shared, empty if none."""
        ...

    def summarizes(self, model: str) -> bool:
        """Whether the server takes `ModelRequest.summarize` and its blocks. Raises nothing."""
        ...
