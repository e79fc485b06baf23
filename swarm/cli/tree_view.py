"""How a tree of agents looks in a terminal: a line for each agent, and the totals below."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from swarm.cli.output import one_line, show_cost, show_count, show_duration, show_number
from swarm.cli.tree_fold import Row, fold_tree
from swarm.records import AgentView

_LOOKS = {
    "running": ("●", "*", "cyan"),
    "parked": ("◐", "~", "yellow"),
    "queued": ("○", ".", "dim"),
    "completed": ("✔", "+", "green"),
    "failed": ("✘", "x", "red"),
    "cancelled": ("⊘", "-", "red"),
    "timed_out": ("◷", "!", "red"),
}
"""How each state is drawn: its glyph, the same in ASCII, its colour."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND = 8


def render_tree(
    agents: Sequence[AgentView],
    console: Console,
    *,
    room: int | None = None,
    live: bool = False,
    show_ids: bool = False,
) -> Group:
    """The tree with its totals, in at most `room` lines; `live` lets the running ones spin."""
    unicode = (console.encoding or "").lower().startswith("utf")
    rows = fold_tree(agents, None if room is None else max(1, room - 1))
    table = _table(rows, unicode=unicode, live=live, expand=console.is_terminal, show_ids=show_ids)
    return Group(table, Text(sum_up(agents), style="dim", no_wrap=True, overflow="ellipsis"))


def _table(rows: Sequence[Row], *, unicode: bool, live: bool, expand: bool, show_ids: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), expand=expand)
    table.add_column(ratio=1 if expand else None, no_wrap=True, overflow="ellipsis")
    for _ in range(5 if show_ids else 4):
        table.add_column(justify="right", no_wrap=True)
    now = time.time()
    for row in rows:
        line, agent = _line(row, unicode=unicode, live=live, now=now), row.agent
        if agent is None:
            table.add_row(line)
            continue
        tokens, cost = agent.usage.total_tokens, agent.cost_usd
        if row.below:
            tokens, cost = agent.subtree_tokens, agent.subtree_cost_usd
        cells = [
            show_number(agent.turns, "turn"),
            f"{show_count(tokens)} tok",
            show_cost(cost),
            "" if agent.started_at is None else show_duration((agent.ended_at or now) - agent.started_at),
        ]
        table.add_row(line, *cells, *([agent.id] if show_ids else []))
    return table


def _line(row: Row, *, unicode: bool, live: bool, now: float) -> Text:
    line = Text(_guide(row.trunk, unicode=unicode), style="dim")
    agent = row.agent
    if agent is None:
        return line.append(("… " if unicode else "... ") + row.summary, style="dim")
    fine, coarse, colour = _LOOKS[agent.state]
    glyph = fine if unicode else coarse
    if live and unicode and agent.state == "running":
        glyph = _SPINNER[int(now * _FRAMES_PER_SECOND) % len(_SPINNER)]
    line.append(f"{glyph} ", style=f"not dim {colour}")
    if agent.name is not None:
        line.append(f"{one_line(agent.name)} ", style="not dim bold")
    line.append(one_line(agent.label), style="not dim")
    if row.below:
        line.append(f" (+{row.below} below)")
    if aside := _aside(agent):
        line.append(f"  {one_line(aside, 160)}")
    return line


def _aside(agent: AgentView) -> str:
    match agent.state:
        case "queued" if agent.unserved:
            return f"nobody can run it: {agent.unserved}"
        case "parked" if agent.idle:
            return "idle"
        case "parked" if agent.question is not None:
            return f"waits for an answer: {agent.activity}"
        case "parked":
            return "waiting" if not agent.activity else f"waiting: {agent.activity}"
        case "failed" | "cancelled" | "timed_out":
            return f"{agent.state.replace('_', ' ')}: {agent.reason}" if agent.reason else agent.state.replace("_", " ")
        case "running":
            return agent.activity
        case _:
            return ""


def _guide(trunk: tuple[bool, ...], *, unicode: bool) -> str:
    if not trunk:
        return ""
    through, tee, corner = ("│  ", "├─ ", "└─ ") if unicode else ("|  ", "|- ", "`- ")
    return "".join(through if more else "   " for more in trunk[:-1]) + (tee if trunk[-1] else corner)


def sum_up(agents: Sequence[AgentView]) -> str:
    """The totals of a tree in one line."""
    if not agents:
        return "starting"
    states: Counter[str] = Counter(agent.state for agent in agents)
    ends = [agent.ended_at for agent in agents if agent.ended and agent.ended_at is not None]
    end = max(ends) if len(ends) == len(agents) else time.time()
    parts = [
        *(f"{states[state]} {state.replace('_', ' ')}" for state in _LOOKS if states[state]),
        show_number(sum(agent.turns for agent in agents), "turn"),
        show_number(sum(agent.tools for agent in agents), "tool call"),
        f"{show_count(sum(agent.usage.total_tokens for agent in agents))} tokens",
        show_cost(sum(agent.cost_usd for agent in agents)),
        show_duration(end - min(agent.created_at for agent in agents)),
    ]
    return " · ".join(parts)
