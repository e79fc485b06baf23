"""Jobs and agents as lines of a list. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from rich.text import Text

from swarm.cli.output import one_line, show_ago, show_number
from swarm.cli.tree_fold import fold_tree, sum_money
from swarm.cli.tree_view import LOOKS, Drawing, count_alive
from swarm.core.records import TERMINAL_STATES
from swarm.streaming.live.rows import Row

MOST_LINES = 1_000
"""Of a tree: the list is drawn again twice a second."""
_GROUPS = {"needs_you": 0, "running": 1, "ended": 2}


def sort_jobs(rows: Mapping[str, Row], words: str = "") -> list[Row]:
    """Sort jobs with questions first, then running, then ended ones; each group newest first."""
    kept = [row for row in rows.values() if words.lower() in f"{row['id']} {row['title']} {row['state']}".lower()]
    return sorted(kept, key=lambda row: (_GROUPS[row["group"]], -(row["created_at"] or 0)))


def job_line(row: Row, now: float) -> Text:
    """Format a job: state, id, age, questions, running agents, cost, title."""
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


def agent_lines(agents: Sequence[Row], asking: Container[str], now: float) -> list[tuple[str, Text]]:
    """Format the tree as keys and lines: an agent's id, or a number for a summary of agents that have no line of their own."""
    rows = fold_tree(agents, MOST_LINES)
    drawing = Drawing(count_alive(agents), now, asking=asking)
    return [
        (str(number) if row.agent is None else row.agent["id"], line)
        for number, (row, line) in enumerate(zip(rows, drawing.lines(rows, None, show_ids=False), strict=True))
    ]


def sum_up_fleet(rows: Sequence[Row], workers: int, *, is_full: bool) -> str:
    """Summarize the fleet in one line; `is_full`: Redis has no room for new jobs."""
    alive = [row for row in rows if row["state"] not in TERMINAL_STATES]
    parts = [
        *(["Redis is nearly full, so nothing new starts"] if is_full else []),
        f"{show_number(len(alive), 'job')} of {len(rows)} active",
        f"{sum(row['running'] for row in alive)} agents running, {sum(row['queued'] for row in alive)} queued",
        f"{show_number(workers, 'worker')}",
        sum_money(rows),
        f"{show_number(sum(row['questions'] for row in rows), 'question')} for you",
    ]
    return " · ".join(parts)


def _glyph(state: str) -> Text:
    glyph, _, colour = LOOKS[state]
    return Text(f"{glyph} ", style=f"not dim {colour}")


def _cost(row: Row) -> str:
    return "rehearsed" if row["rehearsed"] else sum_money([row])
