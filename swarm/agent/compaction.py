"""When and where a conversation is cut. Pure.

A cut is made before a request, where no call waits for its result. It is tried again only after some turns, unless the conversation
would not fit the model. After several attempts that failed or gained little, an agent whose conversation no longer fits gives its final
answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from swarm.agent.cut import Cut
from swarm.agent.history import History

TURNS_BETWEEN = 3
MAX_FAILURES = 3
SUMMARY_TOKENS = 16_000
"""Longest summary in a large window, including the thinking about it."""
_SPARE_TOKENS = 20_000
"""Reserve in the model's context beside the reply, for the next results and errors of the estimate."""
_FIRST_PLACE = 2
"""First useful place: summarizing the first message, or the last summary, alone gains nothing."""

Trigger = Literal["auto", "manual", "overflow"]


@dataclass(frozen=True)
class WantedSummary:
    """A person's request for a summary."""

    id: str
    focus: str = ""


@dataclass(frozen=True)
class ContextBounds:
    """Bounds on a conversation's length."""

    soft: int
    """Tokens above which a summary is cheaper than sending the whole conversation on."""
    hard: int
    """Tokens above which the next replies would not fit the model."""
    window: int
    """The model's context window, in tokens."""
    wanted: WantedSummary | None = None

    @property
    def summary(self) -> int:
        """The longest summary, in tokens: a small window leaves less for it."""
        return min(SUMMARY_TOKENS, self.window // 4)


@dataclass(frozen=True)
class Compact:
    """Replace the conversation, up to its last replies, by a summary."""

    trigger: Trigger
    kept: int = 0
    """Number of last replies to keep after the summary."""
    bare: bool = False
    """Cut without a summary, because none can be made."""
    wanted: WantedSummary | None = None
    not_before: float = 0.0
    """After a failed attempt: wait until this time (Unix seconds) first."""


def bounds_of(
    window: int, reply_tokens: int, *, most: int, dearer_above: int | None, wanted: WantedSummary | None = None
) -> ContextBounds:
    """Return the bounds of a model with this window, whose replies may have `reply_tokens`.

    `most` is a person's setting (0: no bound but the window's). `dearer_above` is where the price of a whole request rises.
    """
    hard = max(window - reply_tokens - _SPARE_TOKENS, window // 2)
    soft = min(hard, most or hard, dearer_above * 9 // 10 if dearer_above else hard)
    return ContextBounds(soft=soft, hard=hard, window=window, wanted=wanted)


def find_cut(history: History, bounds: ContextBounds) -> int:
    """Return how many replies to keep so that the rest and its summary fit the model; 0: none.

    The cut comes as late as possible: a late turn costs no more than an early one.
    """
    room, again, found = bounds.window - bounds.summary, history.context.earlier, 0
    for kept, cut in enumerate(reversed(history.context.cuts), 1):
        if cut.place >= _FIRST_PLACE and cut.tokens <= room and history.messages[cut.place - 1]["role"] == "user":
            found = kept
            if not again:
                break
            again -= 1
    return found


def cut_of(history: History, kept: int) -> Cut:
    """Return the cut that keeps this many replies."""
    return history.context.cuts[-kept]


def wants_compaction(history: History, bounds: ContextBounds) -> Compact | Literal["final answer"] | None:
    """Return the compaction that precedes the next request, `last words`, or None."""
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
        return "final answer" if full else None
    return Compact("auto", kept) if full or history.turns - context.tried_at >= TURNS_BETWEEN else None


def after_overflow(history: History, bounds: ContextBounds | None) -> Compact | None:
    """Choose a compaction of a conversation that does not fit the model; None if none helps.

    The first has a summary, the next has none. A single turn has nothing to summarize: it is rendered as text.
    """
    context = history.context
    if bounds is None or not history.turns or (context.bare and context.fresh):
        return None
    kept = find_cut(history, bounds)
    if kept and context.overflows == 1 and context.failures < MAX_FAILURES:
        return Compact("overflow", kept)
    return Compact("overflow", bare=True)
