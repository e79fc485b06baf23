"""The model port: what the loop asks of a model, and what it gets back.

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
    """One call of the model. `system` and `tools` are frozen for an agent's life, so that the cached prefix holds."""

    model: str
    """A full model id, never an alias."""
    system: str
    messages: list[dict[str, Any]]
    """Messages in the API's shape, without cache marks; the adapter places those. Requests of one conversation, if they share `kept`,
    give the same list, which has only grown at its end."""
    tools: list[dict[str, Any]] = []
    max_tokens: int = 32_000
    tools_allowed: bool = True
    """False asks for text only (`tool_choice: none`), leaving the tools in the prefix."""
    effort: str | None = None
    summarize: str | None = None
    """Asks for a summary of the messages, a block that later requests begin with in their place, made by these instructions."""
    traceparent: str = ""
    """The W3C header that says which span the request is, for traces of whoever answers it; no part of the body."""
    kept: dict[str, Any] = Field(default_factory=dict)
    """What the adapter keeps from one request of a conversation for the next ones: all of them are given the same."""


class Reply(BaseModel, frozen=True):
    """A whole, finished reply of the model."""

    content: list[Block]
    """The blocks byte for byte as the API gave them, thinking signatures included."""
    stop_reason: str
    usage: Usage
    """All that is paid for, also what the server did beside the reply itself."""
    model: str
    request_id: str | None = None
    request_sha: str = ""
    """SHA-256 of the request's body, as it was sent, in hexadecimal."""


Progress = Callable[[str], None]
"""Told when a reply begins (with nothing), and now and then, while it streams, what it is about (a few words, for the activity line)."""


Hear = Callable[[int, Block, str], None]
"""Told each piece of text, thinking or a call's input as it streams: its block's number, the block as it began, the piece."""


ApplyLimits = Callable[[RateLimits], None]
"""Told what the server says of its limits, when a response begins or a request is refused."""


class Model(Protocol):
    """What the loop needs of a model."""

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
        """Whose limits its requests for this model are counted for; the same for all that share them, empty if there are none."""
        ...

    def summarizes(self, model: str) -> bool:
        """Whether the server takes `ModelRequest.summarize` for this model, and the blocks that come of it. Raises nothing."""
        ...
