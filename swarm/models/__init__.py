"""The model port: what the loop asks of a model, and what it gets back.

The Anthropic adapter (`swarm.models.anthropic`) is the only importer of the SDK. An adapter makes exactly one
attempt per call: when and whether to try again is the loop's decision, because a long wait parks the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

Block = dict[str, Any]
"""A content block in the Messages API's own shape, kept exactly as the API sent it."""


class Usage(BaseModel):
    """Tokens of one request (or a sum of several), in the API's four classes."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int = 0
    """Input that was neither read from nor written to the cache."""
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """All tokens that the model saw or wrote."""
        return self.input_tokens + self.output_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_creation_input_tokens=self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            cache_read_input_tokens=self.cache_read_input_tokens + other.cache_read_input_tokens,
        )


class ModelRequest(BaseModel):
    """One call of the model. `system` and `tools` are frozen for an agent's life, so that the cached prefix holds."""

    model_config = ConfigDict(frozen=True)

    model: str
    """A full model id, never an alias."""
    system: str
    messages: list[dict[str, Any]]
    """Messages in the API's shape, without cache marks; the adapter places those."""
    tools: list[dict[str, Any]] = []
    max_tokens: int = 32_000
    tools_allowed: bool = True
    """False asks for text only (`tool_choice: none`), leaving the tools in the prefix."""
    effort: str | None = None


class Reply(BaseModel):
    """A whole, finished reply of the model."""

    model_config = ConfigDict(frozen=True)

    content: list[Block]
    """The blocks byte for byte as the API gave them, thinking signatures included."""
    stop_reason: str
    usage: Usage
    model: str
    request_id: str | None = None


Progress = Callable[[str], None]
"""Told now and then, while a reply streams, what it is about (a few words, for the activity line)."""


class Model(Protocol):
    """What the loop needs of a model."""

    def complete(self, request: ModelRequest, on_progress: Progress | None = None) -> Reply:
        """Make one attempt and return the whole reply.

        Raises `TransientModelError` or `PermanentModelError`; a stream that ends before `message_stop` is transient.
        """
        ...
