"""Slots, an agent's turns to use the fleet's share of the model, as the steps take and answer them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from swarm.models.limits import NOTHING_STATED, RateLimits

Ending = Literal["ok", "limited", "overloaded", "lost"]
"""Of a call: with a reply, refused with a 429, with an overload, without either."""


@dataclass(frozen=True)
class SlotReservation:
    """What a call of the model is expected to take of the fleet's share."""

    limit_class: str
    tokens: int
    """Input that is not read from the prompt cache."""
    cold: int = 0
    """What its requests begin with has so many more, for the first that writes it …"""
    prefix: str = ""
    """… under this name; empty if it begins with nothing that others do not have."""

    def encode(self) -> str:
        """As the steps take it."""
        reservation = {"class": self.limit_class, "input": self.tokens, "cold": self.cold, "prefix": self.prefix}
        return json.dumps(reservation)


@dataclass(frozen=True)
class Slot:
    """An agent's turn to ask the model."""

    limit_class: str
    at: float
    """From then on (Unix seconds)."""
    known: bool = True
    """Whether anything is known of the server's limits yet."""
    opens: str = ""
    """The prefix of its requests, if others wait for its first reply to begin."""


@dataclass(frozen=True)
class InLine:
    """The agent waits for a slot; it is woken once it has one."""


@dataclass(frozen=True)
class CallEnd:
    """How a call of the model has ended, for the governor."""

    limit_class: str
    ending: Ending
    tokens: int
    """Input that was not read from the prompt cache."""
    output: int
    after: float = 0.0
    """In how many seconds the server wants to be asked again; 0: it did not say."""
    limits: RateLimits = NOTHING_STATED
    age: float = 0.0
    """How many seconds ago it said so."""

    def encode(self) -> str:
        """As the steps take it."""
        told = {"class": self.limit_class, "as": self.ending, "input": self.tokens, "output": self.output}
        return json.dumps({**told, "after": self.after, "told": list(self.limits), "age": self.age})


def read_slot(limit_class: str, answer: Sequence[str]) -> Slot | InLine | None:
    """What became of a wish; None: it was not looked up."""
    match answer:
        case ["go", at, mode, opens]:
            return Slot(limit_class, float(at), known=mode != "new", opens=opens)
        case ["wait"]:
            return InLine()
    return None


def read_held(document: str, opens: str) -> Slot | None:
    """What a record tells of the slot that its agent holds."""
    if not document:
        return None
    held = json.loads(document)
    return Slot(held["class"], float(held["at"]), opens=opens)
