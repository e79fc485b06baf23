"""A scenario of the tests: beside words and faults it says what the simulated API grants."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from swarm.rehearsal.scenario import ReplyPart, Scenario


class RateLimits(ReplyPart):
    """The simulated limits, per minute, that the response headers report."""

    requests: int = Field(default=4_000, ge=1)
    input_tokens: int = Field(default=2_000_000, ge=1)
    """Cache reads do not count."""
    output_tokens: int = Field(default=400_000, ge=1)
    in_flight: int | None = Field(default=None, ge=1)
    """Requests that may be under way at once; one more is answered 429, also without `enforce`."""
    retry_after: float | None = Field(default=None, gt=0)
    """Seconds in the `retry-after` header of those, instead of the time until there is room again."""
    enforce: bool = False
    """Answer 429 with `retry-after` when one is used up, instead of only reporting."""
    stated: bool = True
    """False: no header tells of them, as with some platforms and proxies."""
    refusals_count: bool = False
    """A request that is refused counts as a request, too."""


class BatchRules(ReplyPart):
    """How batches go."""

    seconds: float = Field(default=0.0, ge=0)
    """How long each takes."""
    unheard: int = Field(default=0, ge=0)
    """So many of the first are taken in, and their senders told nothing: the connection breaks."""


class SimulatedScenario(Scenario):
    """A whole scenario, with what the provider is to play."""

    cache_minimum_tokens: int = Field(default=0, ge=0)
    """Prefixes shorter than this are silently not cached."""
    rate_limits: RateLimits = RateLimits()
    batches: BatchRules = BatchRules()
    script: Literal["tree", "chatter"] | None = None  # type: ignore[assignment]
