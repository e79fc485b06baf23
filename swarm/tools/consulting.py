"""What a tool may ask of a model beside the agent's own conversation: one small request, paid by the agent's job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from swarm.models import Reply


@dataclass(frozen=True)
class Consultation:
    """One request to a small model."""

    system: str
    messages: list[dict[str, Any]]
    max_tokens: int
    tools: tuple[dict[str, Any], ...] = ()
    """Tools that the server itself carries out."""


Consult = Callable[[Consultation], Reply]
"""Makes the request. Raises `ToolError` where the job cannot pay for it, and `ModelError` where the model fails."""
