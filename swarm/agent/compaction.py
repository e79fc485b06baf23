"""When a conversation is cut, and where. Pure: it follows from the journal and the model's size.

A cut is made before a request, where no call waits for its result. It is tried again only after some turns, unless the conversation
would not fit the model; after several that failed or gained little an agent whose conversation fits no more gives its last words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from swarm.agent.cut import Cut
from swarm.agent.history import History

TURNS_BETWEEN = 3
MAX_FAILURES = 3
SUMMARY_TOKENS = 16_000
"""How long a summary may be, with what is thought about it."""
_SPARE_TOKENS = 20_000
"""What stays free of the model's context beside the reply: the next results, and what an estimate is wrong by."""
_FIRST_PLACE = 2
"""A cut before the second reply or later: the first message, or the last summary, gains nothing by being summarized alone."""

Trigger = Literal["auto", "manual", "overflow"]


@dataclass(frozen=True)
class WantedSummary:
    """A person's request for a summary."""

    id: str
    focus: str = ""


@dataclass(frozen=True)
class ContextBounds:
    """How long a conversation may get."""

    soft: int
    """In tokens: beyond, a summary is cheaper than sending all of it on."""
    hard: int
    """Beyond, the next replies would not fit the model."""
    window: int
    """All that the model holds."""
    wanted: WantedSummary | None = None


@dataclass(frozen=True)
class Compact:
    """Have a summary take the conversation's place, up to its last replies."""

    trigger: Trigger
    kept: int = 0
    """How many of the last replies come after it."""
    bare: bool = False
    """Without a summary: none can be made."""
    wanted: WantedSummary | None = None
    not_before: float = 0.0
    """After a failed attempt: wait until this time (Unix seconds) first."""


def bounds_of(
    window: int, reply_tokens: int, *, most: int, dearer_above: int | None, wanted: WantedSummary | None = None
) -> ContextBounds:
    """The bounds of a model with this window, whose replies may have `reply_tokens`.

    `most` is what people set (0: no bound but the window's), `dearer_above` where the price of a whole request rises.
    """
    hard = max(window - reply_tokens - _SPARE_TOKENS, window // 2)
    soft = min(hard, most or hard, dearer_above * 9 // 10 if dearer_above else hard)
    return ContextBounds(soft=soft, hard=hard, window=window, wanted=wanted)


def find_cut(history: History, bounds: ContextBounds) -> int:
    """How many replies to keep at least, so that what lies before them fits the model with a summary of it; 0: there is no such cut.

    From the end, and no further than needed: a late turn costs no more than an early one.
    """
    room, again, found = bounds.window - SUMMARY_TOKENS, history.context.earlier, 0
    for kept, cut in enumerate(reversed(history.context.cuts), 1):
        if cut.place >= _FIRST_PLACE and cut.tokens <= room and history.messages[cut.place - 1]["role"] == "user":
            found = kept
            if not again:
                break
            again -= 1
    return found


def cut_of(history: History, kept: int) -> Cut:
    """Where that is."""
    return history.context.cuts[-kept]


def wants_compaction(history: History, bounds: ContextBounds) -> Compact | Literal["last words"] | None:
    """What comes before the next request, if anything does."""
    context, tokens = history.context, history.tokens_to_send()
    asked = bounds.wanted is not None and bounds.wanted.id != context.asked
    if history.messages[-1]["role"] != "user" or not (asked or tokens > bounds.soft):
        return None
    if not (kept := find_cut(history, bounds)):
        return None
    if asked:
        return Compact("manual", kept, wanted=bounds.wanted)
    if history.final_answer is not None:
        return None
    full = tokens > bounds.hard
    if context.failures >= MAX_FAILURES:
        return "last words" if full else None
    return Compact("auto", kept) if full or history.turns - context.tried_at >= TURNS_BETWEEN else None


def after_overflow(history: History, bounds: ContextBounds | None) -> Compact | None:
    """What can be done about a conversation that does not fit the model: a summary, once, then none; None: nothing.

    One of a single turn has nothing to be summarized: the turn is told as text.
    """
    context = history.context
    if bounds is None or not history.turns or (context.bare and context.fresh):
        return None
    kept = find_cut(history, bounds)
    if kept and context.overflows == 1 and context.failures < MAX_FAILURES:
        return Compact("overflow", kept)
    return Compact("overflow", bare=True)
