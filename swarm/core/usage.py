"""Tokens and money: what requests used, and sums of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import not_
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

NANO = 1_000_000_000
"""Money is counted in whole nano-dollars, so that sums are exact."""


class Usage(BaseModel, frozen=True):
    """Tokens of one request or a sum of several, in the API's four classes."""

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


@dataclass(frozen=True)
class Counters:
    """A step's additions to the agent's and the job's sums, or such a sum."""

    turns: int = 0
    tools: int = 0
    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0
    cost: int = 0
    """Nano-dollars, as far as prices are known."""
    estimated: int = 0
    """The part of the cost that is an estimate, of replies that were cut or lost."""
    unpriced: int = 0
    """Tokens of models without a known price; their cost is missing."""

    @property
    def usage(self) -> Usage:
        """The tokens, as the API names them."""
        return Usage(
            input_tokens=self.input,
            output_tokens=self.output,
            cache_creation_input_tokens=self.cache_write,
            cache_read_input_tokens=self.cache_read,
        )

    def __add__(self, other: Counters) -> Counters:
        return Counters(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def changed(self) -> dict[str, int]:
        """Return the counters that are not zero."""
        return {name: value for name, value in vars(self).items() if value}


COUNTERS = tuple(field.name for field in fields(Counters))
_UNUSED = Usage()


class Charge(BaseModel, frozen=True):
    """The use of one or several model requests, and its cost as far as prices are known."""

    usage: Annotated[Usage, BeforeValidator(lambda usage: usage or _UNUSED)] = Field(
        default=_UNUSED, exclude_if=lambda usage: usage is _UNUSED
    )
    cost_usd: float = Field(default=0.0, exclude_if=not_)
    estimated_usd: float = Field(default=0.0, exclude_if=not_)
    """The part of the cost that is an estimate: the reply was cut or lost."""
    unpriced_tokens: int = Field(default=0, exclude_if=not_)
    """Tokens of a model without a known price; their cost is missing."""
    model: str = Field(default="", exclude_if=not_)

    @property
    def is_free(self) -> bool:
        """Whether nothing was used."""
        return not self.cost_usd and (self.usage is _UNUSED or not self.usage.total_tokens)

    @property
    def charge(self) -> Charge:
        """The charge alone."""
        return Charge(**{name: getattr(self, name) for name in Charge.model_fields})

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            usage=self.usage + other.usage,
            cost_usd=self.cost_usd + other.cost_usd,
            estimated_usd=self.estimated_usd + other.estimated_usd,
            unpriced_tokens=self.unpriced_tokens + other.unpriced_tokens,
            model=self.model or other.model,
        )

    def scaled(self, share: float) -> Charge:
        """This charge at a share of its price."""
        if share == 1.0:
            return self
        return self.charge.model_copy(
            update={"cost_usd": self.cost_usd * share, "estimated_usd": self.estimated_usd * share}
        )

    def counters(self, *, turns: int = 0, tools: int = 0) -> Counters:
        """The additions to the agent's and the job's sums."""
        return Counters(
            turns=turns,
            tools=tools,
            input=self.usage.input_tokens,
            output=self.usage.output_tokens,
            cache_write=self.usage.cache_creation_input_tokens,
            cache_read=self.usage.cache_read_input_tokens,
            cost=round(self.cost_usd * NANO),
            estimated=round(self.estimated_usd * NANO),
            unpriced=self.unpriced_tokens,
        )


def dollars_known(counted: Counters, *, rehearsed: bool) -> float | None:
    """Return the dollars paid; None if none of the used models has a known price."""
    if rehearsed:
        return 0.0
    return counted.cost / NANO if counted.cost or not counted.unpriced else None
