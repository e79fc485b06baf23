"""The governor's view for people: per class the server's limits, the current levels, and the agents in line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from swarm.store.store import Store

Knowledge = Literal["new", "told", "blind"]
Cause = Literal["start", "server", "refusal", "storm", "operator"]
"""Why fewer requests are made: the class is new; the server asked for it; refusals, or a storm of overloads; an operator."""
_KINDS = ("requests", "input", "output")
_UNBOUND = 1e12
_WIDEST = 1000


@dataclass(frozen=True)
class Bucket:
    """One limit: requests, or tokens of input or output."""

    stated: int | None
    """Limit per minute as the server states it; None: not stated."""
    used: int | None
    """Limit per minute that the fleet keeps to; None: no limit."""
    left: int | None
    """Current level; below zero after a reply that was longer than expected."""
    ceiling: int | None = None
    """Limit per minute that an operator has set."""


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
    """Most concurrent requests; None: no bound."""
    window_cause: Cause | None
    held_seconds: float
    """Seconds until requests are allowed again; 0: allowed."""
    held_by: Cause | None
    try_seconds: float | None
    """Seconds until one request finds out whether a long hold is over; None: no request tries it."""
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
        held = round(max(0.0, account["hold"] - account["now"]), 1)
        narrow = account["window"] < _WIDEST
        found.append(
            LimitClass(
                name=name,
                knowledge=account["mode"],
                buckets={kind: _read_bucket(account, n) for n, kind in enumerate(_KINDS)},
                asking=slots,
                window=int(account["window"]) if narrow else None,
                window_cause=account["narrow"] if narrow else None,
                held_seconds=held,
                held_by=account["by"] if held else None,
                try_seconds=round(max(0.0, account["try"] - account["now"]), 1)
                if held and account["try"] < account["hold"]
                else None,
                waiting=waiting,
                sent=round(account["sent"]),
                replies=round(account["turns"]),
                limited=round(account["limited"]),
                overloaded=round(account["overloaded"]),
            )
        )
    return found


def _read_bucket(account: dict[str, Any], n: int) -> Bucket:
    used = _bound(account["rates"][n])
    return Bucket(
        stated=round(account["limit"][n]) or None,
        used=used,
        left=None if used is None else round(account["level"][n]),
        ceiling=account["ceiling"][n] or None,
    )


def _bound(rate: float) -> int | None:
    return round(rate) if rate < _UNBOUND else None
