"""`swarm compare A B`, and `swarm diff` of two jobs: show two jobs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from swarm.cli.completion import complete_job
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import one_line, print_json, print_line, show_cost, show_count, show_duration
from swarm.cli.tables import Column, Listing
from swarm.replay.comparison import Comparison
from swarm.replay.side_by_side import SideBySide

_SHOWN_CHARACTERS = 300
_JobOption = typer.Argument(metavar="JOB", help="A job, by id or prefix.", autocompletion=complete_job)
_Row = tuple[str, tuple[Any, ...]]


def compare_jobs(
    first: Annotated[str, _JobOption], second: Annotated[str, _JobOption], as_json: JsonOption = False
) -> None:
    """Show two jobs side by side: turns, calls, cost, files, answers, and the turns in which their agents part."""
    show_comparison(first, second, as_json=as_json)


def show_comparison(first: str, second: str, *, as_json: bool) -> None:
    """Print two jobs side by side."""
    with open_swarm() as swarm:
        found = SideBySide(swarm, *(find_job(swarm, text).id for text in (first, second)))
    if as_json:
        print_json(found.document())
        return
    a, b = found.jobs
    print_line(f"a  {a.id}  {one_line(a.title, 100)}\nb  {b.id}  {one_line(b.title, 100)}")
    _show("", {name: tuple(_write(name, one) for one in pair) for name, pair in found.figures.items()})
    _show("calls of", found.tools)
    _show("file", found.files)
    _print_agents(found.agents)
    for side, answer in zip("ab", (a.text, b.text), strict=True) if a.text != b.text else ():
        print_line(f"answer {side}: {one_line(answer, _SHOWN_CHARACTERS)}")


def _show(heading: str, pairs: Mapping[str, tuple[Any, ...]]) -> None:
    columns = (
        Column[_Row](heading, lambda row: row[0], flexible=True),
        Column[_Row]("a", lambda row: row[1][0], right=True),
        Column[_Row]("b", lambda row: row[1][1], right=True),
    )
    Listing(*columns).show(pairs.items())


def _write(name: str, value: Any) -> str:
    match name:
        case "tokens":
            return show_count(value)
        case "cost_usd":
            return show_cost(value, 0)
        case "seconds":
            return show_duration(value)
    return str(value).replace("_", " ")


def _print_agents(found: Comparison) -> None:
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
