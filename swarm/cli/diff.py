"""`swarm diff A B`: compare two jobs side by side."""

from __future__ import annotations

from dataclasses import asdict

from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.output import one_line, print_json, print_line
from swarm.replay.comparison import Comparison, compare
from swarm.replay.past import read_past

_SHOWN_CHARACTERS = 300


def show_comparison(first: str, second: str, *, as_json: bool) -> None:
    """Print the differences between two jobs."""
    with open_swarm() as swarm:
        a, b = (find_job(swarm, text).id for text in (first, second))
        found = compare(read_past(swarm.store, a), read_past(swarm.store, b))
    if as_json:
        print_json({"a": a, "b": b, **asdict(found)})
    else:
        _print(a, b, found)


def _print(a: str, b: str, found: Comparison) -> None:
    print_line(f"a  {a}\nb  {b}")
    for name, (one, other) in found.totals.items():
        print_line(f"{name}: {one}" if one == other else f"{name}: {one} | {other}")
    for difference in found.agents:
        turns = " | ".join(map(str, dict.fromkeys(difference.turns)))
        if difference.diverges is None:
            print_line(f"{difference.place}: the same, {turns} turns")
            continue
        print_line(f"{difference.place}: parts at turn {difference.diverges} of {turns}")
        for side, reply in zip("ab", difference.replies, strict=True):
            print_line(f"  {side}  {one_line(reply, _SHOWN_CHARACTERS) or '(nothing)'}")
    for side, places in zip("ab", found.only, strict=True):
        for place in places:
            print_line(f"only {side}: {place}")
    for side, answer in zip("ab", found.answers, strict=True) if found.answers[0] != found.answers[1] else ():
        print_line(f"answer {side}: {one_line(answer, _SHOWN_CHARACTERS)}")
