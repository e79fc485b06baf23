"""The governor's view for people: per class the server's limits, the current levels, and the agents in line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from swarm.store.store import Store

Knowledge = Literal["new", "told", "blind"]
_KINDS = ("requests", "input", "output")
_UNBOUND = 1e12


@dataclass(frozen=True)
class Bucket:
    """One limit: requests, or tokens of input or output."""

    stated: int | None
    """Limit per minute as the server states it; None: not stated."""
    used: int | None
    """Limit per minute that the fleet keeps to; None: no limit."""
    left: int | None
    """Current level; below zero after a reply that was longer than expected."""


@dataclass(frozen=True)
class LimitClass:
    """A class of shared limits: one account and one kind of model."""

    name: str
    """`provider/account/kind of model`; the account is a digest."""
    knowledge: Knowledge
    """`told`: the server states limits; `blind`: they are learned from refusals; `new`: no request yet."""
    buckets: dict[str, Bucket]
    """`requests`, and tokens of `input` and `output`."""
    asking: int
    """Agents that hold a slot: they ask, or are about to."""
    window: int | None
    """Most concurrent requests after a storm of overloads; None: no bound."""
    held_seconds: float
    """Seconds until requests are allowed again, as the server demanded; 0: allowed."""
    waiting: dict[str, int]
    """Agents in line, by job; the job served next comes first."""
    sent: int
    """Requests in all; the next fields count their results."""
    replies: int
    limited: int
    overloaded: int


def read_classes(store: Store) -> list[LimitClass]:
    """Read all classes, last used first."""
    found = []
    for name, account, slots, waiting in store.rates.limit_classes():
        stated, rates, levels = account["limit"], account["rates"], account["level"]
        buckets = {
            kind: Bucket(round(stated[n]) or None, _bound(rates[n]), round(levels[n]) if _bound(rates[n]) else None)
            for n, kind in enumerate(_KINDS)
        }
        found.append(
            LimitClass(
                name=name,
                knowledge=account["mode"],
                buckets=buckets,
                asking=slots,
                window=int(account["window"]) if account["window"] < 1000 else None,
                held_seconds=round(max(0.0, account["hold"] - account["now"]), 1),
                waiting=waiting,
                sent=round(account["sent"]),
                replies=round(account["turns"]),
                limited=round(account["limited"]),
                overloaded=round(account["overloaded"]),
            )
        )
    return found


def _bound(rate: float) -> int | None:
    return round(rate) if rate < _UNBOUND else None
