"""The model port: requests that the loop makes of a model, and replies.

The Anthropic adapter (`swarm.models.anthropic`) is the only importer of the SDK. An adapter makes exactly one
attempt per call: when and whether to try again is the loop's decision, because a long wait parks the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pydantic import BaseModel, Field

from swarm.core.records import Usage as Usage
from swarm.models.limits import RateLimits as RateLimits

Block = dict[str, Any]
"""A content block in the Messages API's own shape, kept exactly as the API sent it."""


class ModelRequest(BaseModel, frozen=True):
    """One model call. `system` and `tools` stay frozen for an agent's history, so that the cached prefix holds."""

    model: str
    """A full model id, never an alias."""
    system: str
    messages: list[dict[str, Any]]
    """Messages in the API's shape, without cache marks; the adapter places those. Requests of one conversation that share `kept` give
    the same list, which only grows at its end."""
    tools: list[dict[str, Any]] = []
    max_tokens: int = 32_000
    tools_allowed: bool = True
    """False asks for text only (`tool_choice: none`), leaving the tools in the prefix."""
    effort: str | None = None
    summarize: str | None = None
    """Instructions for a summary of the messages: a block that later requests begin with in their place."""
    traceparent: str = ""
    """W3C trace header that names the request's span, for the server's traces. It is no part of the body."""
    kept: dict[str, Any] = Field(default_factory=dict)
    """State that the adapter keeps between the requests of one conversation. All of them share this dict."""


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


Progress = Callable[[str], None]
"""Called with an empty text when a reply begins, then occasionally with the current activity in a few words."""


Hear = Callable[[int, Block, str], None]
"""Called for each streamed piece of text, thinking or call input: the block's number, the block as it began, the piece."""


ApplyLimits = Callable[[RateLimits], None]
"""Called with the limits that the server states, when a response begins or a request is refused."""


class Model(Protocol):
    """A model as the loop uses it."""

    def complete(
        self,
        request: ModelRequest,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
    ) -> Reply:
        """Make one attempt and return the whole reply.

        Raises `TransientModelError` or `PermanentModelError`; a stream that ends before `message_stop` is transient.
        """
        ...

    def limit_class(self, model: str) -> str:
        """Name the limits that count requests for this model: equal for all that share them, empty if there are none."""
        ...

    def summarizes(self, model: str) -> bool:
        """Whether the server takes `ModelRequest.summarize`, and the resulting blocks, for this model. Raises nothing."""
        ...
