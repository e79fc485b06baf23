"""How jobs and agents look as lines of a list. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from swarm.cli.output import one_line, show_ago, show_cost, show_duration, show_number
from swarm.core.records import TERMINAL_STATES
from swarm.definitions.tools import Kind, row_of
from swarm.streaming.live.rows import Row

_LOOKS = {
    **{"running": ("●", "cyan"), "parked": ("◐", "yellow"), "queued": ("○", "dim"), "completed": ("✔", "green")},
    **{"failed": ("✘", "red"), "cancelled": ("⊘", "red"), "timed_out": ("◷", "red")},
}
_GROUPS = {"needs_you": 0, "running": 1, "ended": 2}


def sort_jobs(rows: Mapping[str, Row], words: str = "") -> list[Row]:
    """Those that need somebody first, then what runs, then what has ended; within each the newest first."""
    kept = [row for row in rows.values() if words.lower() in f"{row['id']} {row['title']} {row['state']}".lower()]
    return sorted(kept, key=lambda row: (_GROUPS[row["group"]], -(row["created_at"] or 0)))


def job_line(row: Row, now: float) -> Text:
    """A job: its state, its id, how long ago it was started, whether it asks, how many of its agents run, its cost, its title."""
    alive = row["state"] not in TERMINAL_STATES
    line = Text().append_text(_glyph(row["state"]))
    line.append(row["id"], style="bold" if row["group"] == "needs_you" else "")
    line.append(f"  {show_ago(now - (row['created_at'] or now)):>7}", style="dim")
    asks = f"asks {row['questions']}" if row["questions"] else ""
    line.append(f"  {asks:7}", style="bold yellow")
    agents = f"{row['running']} of {row['agents']}" if alive else str(row["agents"])
    line.append(f"  {agents:>8}", style="cyan" if alive else "dim")
    line.append(f"  {_cost(row):>9}  ", style="dim")
    return line.append(one_line(row["title"], 200))


def agent_lines(agents: Mapping[str, Row], questions: Mapping[str, Any], now: float) -> list[tuple[str, Text]]:
    """The tree: an id and a line for each agent, parents before their children, which keep their order."""
    children: dict[str | None, list[Row]] = defaultdict(list)
    for row in agents.values():
        children[row["parent_id"] if row["parent_id"] in agents else None].append(row)
    lines: list[tuple[str, Text]] = []

    def add(row: Row, trunk: tuple[bool, ...]) -> None:
        below = children[row["id"]]
        alive = sum(child["state"] not in TERMINAL_STATES for child in below)
        lines.append((row["id"], _agent_line(row, trunk, questions, alive, now)))
        for number, child in enumerate(below, 1):
            add(child, (*trunk, number < len(below)))

    for root in children[None]:
        add(root, ())
    return lines


def _agent_line(row: Row, trunk: tuple[bool, ...], questions: Mapping[str, Any], alive: int, now: float) -> Text:
    guide = "".join("│  " if more else "   " for more in trunk[:-1]) + (
        ("├─ " if trunk[-1] else "└─ ") if trunk else ""
    )
    line = Text(guide, style="dim").append_text(_glyph(row["state"]))
    line.append(f"{one_line(row['name'])} " if row["name"] else "", style="not dim bold")
    line.append(one_line(row["label"], 80), style="not dim")
    if row["id"] in questions:
        line.append("  asks you", style="not dim bold yellow")
    ended = row["ended_at"] or now
    took = "" if row["started_at"] is None else f", {show_duration(ended - row['started_at'])}"
    # That a whole job is rehearsed stands above it.
    cost = "" if row["rehearsed"] else f", {show_cost(row['cost_usd'])}"
    line.append(f"  {show_number(row['turns'], 'turn')}{cost}{took}")
    call = row["activity"].partition(" ")[0]
    waits = row["state"] == "parked" and alive and (not call or row_of(call).kind is Kind.SPAWN)
    doing = f"waits for {show_number(alive, 'agent')}" if waits else row["activity"]
    told = row["unserved"] or row["reason"] or row["summary"] or doing
    return line.append(f"  {one_line(told, 120)}") if told else line


def sum_up_fleet(rows: Sequence[Row], workers: int) -> str:
    """The whole fleet in a line."""
    alive = [row for row in rows if row["state"] not in TERMINAL_STATES]
    parts = [
        f"{show_number(len(alive), 'job')} of {len(rows)} at work",
        f"{sum(row['running'] for row in alive)} agents running, {sum(row['queued'] for row in alive)} queued",
        f"{show_number(workers, 'worker')}",
        show_cost(sum(row["cost_usd"] for row in rows)),
        f"{show_number(sum(row['questions'] for row in rows), 'question')} for you",
    ]
    return " · ".join(parts)


def _glyph(state: str) -> Text:
    glyph, colour = _LOOKS[state]
    return Text(f"{glyph} ", style=f"not dim {colour}")


def _cost(row: Row) -> str:
    return "rehearsed" if row["rehearsed"] else show_cost(row["cost_usd"])
