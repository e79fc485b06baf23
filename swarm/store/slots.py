"""Slots: agents' turns to use the fleet's share of the model, and their form in steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from swarm.models.limits import NOTHING_STATED, RateLimits

Ending = Literal["ok", "limited", "overloaded", "lost"]
"""The end of a call: with a reply, refused with a 429, refused with an overload, or neither."""


@dataclass(frozen=True)
class SlotReservation:
    """A model call's expected use of the fleet's share."""

    limit_class: str
    tokens: int
    """Input not read from the prompt cache."""
    cold: int = 0
    """Further uncached tokens of the request prefix, for the first request that writes it."""
    prefix: str = ""
    """The name of the request prefix; empty if it is not shared."""

    def encode(self) -> str:
        """Encode it as a step's argument."""
        reservation = {"class": self.limit_class, "input": self.tokens, "cold": self.cold, "prefix": self.prefix}
        return json.dumps(reservation)


@dataclass(frozen=True)
class Slot:
    """An agent's turn to ask the model."""

    limit_class: str
    at: float
    """Start of the turn (Unix seconds)."""
    known: bool = True
    """Whether any of the server's limits are known."""
    opens: str = ""
    """The prefix of its requests, if others wait for its first reply to begin."""


@dataclass(frozen=True)
class InLine:
    """The agent waits for a slot; it is woken once it has one."""


@dataclass(frozen=True)
class CallEnd:
    """The end of a model call, for the governor."""

    limit_class: str
    ending: Ending
    tokens: int
    """Input not read from the prompt cache."""
    output: int
    after: float = 0.0
    """Seconds after which the server allows another request; 0: not stated."""
    limits: RateLimits = NOTHING_STATED
    age: float = 0.0
    """Seconds since it stated that."""

    def encode(self) -> str:
        """Encode it as a step's argument."""
        told = {"class": self.limit_class, "as": self.ending, "input": self.tokens, "output": self.output}
        return json.dumps({**told, "after": self.after, "told": list(self.limits), "age": self.age})


def read_slot(limit_class: str, answer: Sequence[str]) -> Slot | InLine | None:
    """Decode the answer to a slot request; None: it was not looked up."""
    match answer:
        case ["go", at, mode, opens]:
            return Slot(limit_class, float(at), known=mode != "new", opens=opens)
        case ["wait"]:
            return InLine()
    return None


def read_held(document: str, opens: str) -> Slot | None:
    """Decode the held slot in an agent's record."""
    if not document:
        return None
    held = json.loads(document)
    return Slot(held["class"], float(held["at"]), opens=opens)
