"""Which checkouts of a host go, and which stay.

Tests of swarm/workspace/leftovers.py, tasks/housekeeping.py.
"""

from __future__ import annotations

from swarm.workspace.leftovers import Leftover, LeftoverState, choose

OLD, NEW = 0.0, 9_999.0
KNOWN: dict[str, LeftoverState] = {"runs": "needed", "ended": "free", "later": "free", "alone": "kept"}
HELD = [
    Leftover("runs", "job", OLD, 100),
    Leftover("ended", "job", OLD, 100),
    Leftover("later", "job", NEW, 100),
    Leftover("alone", "other", OLD, 100),
    Leftover("unknown", "past", OLD, 100),
    Leftover("fresh", "fresh-job", NEW, 100),
    *(Leftover(name, "", OLD, 10) for name in ("job", "other", "past", "fresh-job")),
]


def chosen(most_bytes: int) -> list[str]:
    return choose(HELD, KNOWN, most_bytes=most_bytes, now=10_000.0)


def test_what_nobody_knows_goes_and_the_store_after_those_who_use_it() -> None:
    assert chosen(10_000) == ["unknown", "past"]


def test_the_least_recently_used_that_the_hub_has_goes_until_the_rest_fits() -> None:
    assert chosen(450) == ["unknown", "ended", "past"]


def test_what_may_go_on_here_or_is_nowhere_else_stays_whatever_room_it_takes() -> None:
    assert chosen(0) == ["unknown", "ended", "later", "past"]
