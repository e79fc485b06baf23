"""What people see of the governor: of each class what its server grants, what of that is left now, and who waits."""

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
    """A minute, as the server says; None: it does not."""
    used: int | None
    """A minute, what the fleet keeps to; None: nothing binds it."""
    left: int | None
    """Now; below zero after a reply that was longer than expected."""


@dataclass(frozen=True)
class LimitClass:
    """Whose limits are shared: one account's, for one kind of model."""

    name: str
    """`provider/account/kind of model`; the account is a digest."""
    knowledge: Knowledge
    """`told`: the server states its limits; `blind`: it does not, and they are learned from refusals; `new`: nobody has asked yet."""
    buckets: dict[str, Bucket]
    """`requests`, and tokens of `input` and `output`."""
    asking: int
    """Agents that hold a slot: they ask, or are about to."""
    window: int | None
    """How many may at once, after a storm of overloads; None: as many as there are."""
    held_seconds: float
    """For so long nobody asks: the server said so. 0: it is open."""
    waiting: dict[str, int]
    """By job, how many agents are in line; who is served next comes first."""
    sent: int
    """Requests in all; the same for what became of them."""
    replies: int
    limited: int
    overloaded: int


def read_classes(store: Store) -> list[LimitClass]:
    """All of them, those that were asked for last first."""
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
