"""A tree of agents on a terminal: one line per agent, with totals below."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text

from swarm.cli.output import one_line, show_count, show_duration, show_number
from swarm.cli.tables import cut
from swarm.cli.tree_fold import TreeLine, fold_tree, sum_money
from swarm.streaming.live.rows import Row

LOOKS = {
    "running": ("●", "*", "cyan"),
    "parked": ("◐", "~", "yellow"),
    "queued": ("○", ".", "dim"),
    "completed": ("✔", "+", "green"),
    "failed": ("✘", "x", "red"),
    "cancelled": ("⊘", "-", "red"),
    "timed_out": ("◷", "!", "red"),
}
"""Glyph, ASCII glyph and colour of each state."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND = 8
_LEAST_BESIDE_IDS = 36
"""Minimum cells for an agent's name and activity beside its id."""
_LEAST_SHARE = 0.6
"""Share of a terminal's width for name and activity without ids."""


def render_tree(
    agents: Sequence[Row],
    console: Console,
    *,
    room: int | None = None,
    live: bool = False,
    show_ids: bool = False,
    job_id: str = "",
    now: float | None = None,
) -> Group:
    """The tree with its totals, in at most `room` lines; `live` lets the running ones spin."""
    unicode = (console.encoding or "").lower().startswith("utf")
    rows = fold_tree(agents, None if room is None else max(1, room - 1))
    # Without a terminal nothing is cut.
    width = console.width if console.is_terminal else None
    drawing = Drawing(count_alive(agents), unicode=unicode, live=live, now=time.time() if now is None else now)
    lines = drawing.lines(rows, width, show_ids=show_ids)
    total = sum_up(agents, width, job_id=job_id, now=now, unicode=unicode)
    return Group(*lines, Text(total, style="dim", no_wrap=True))


def count_alive(agents: Sequence[Row]) -> Counter[str | None]:
    """Count each agent's running children."""
    return Counter(agent["parent_id"] for agent in agents if agent["at_work"])


@dataclass(frozen=True)
class Drawing:
    """Settings for drawing the lines of a tree."""

    alive: Counter[str | None]
    """Running children, per parent."""
    now: float
    unicode: bool = True
    live: bool = False
    asking: Container[str] = ()
    """Agents with a question to the person."""

    def lines(self, rows: Sequence[TreeLine], width: int | None, *, show_ids: bool) -> list[Text]:
        """Draw a line per row: name and activity, then the columns that fit, ids before all others."""
        cells = [self._cells(row) for row in rows]
        ids = [row.agent["id"] if show_ids and row.agent else "" for row in rows]
        widths = [max(map(len, column), default=0) for column in zip(*cells, strict=True)]
        id_width = max(map(len, ids), default=0)
        kept = _choose_columns(widths, id_width, width)
        if width is None:  # the longest head has room
            room = max((self._head(row, None)[1] for row in rows), default=0)
        else:
            room = width - _beside(widths, kept, id_width)
        lines = []
        for row, told, agent_id in zip(rows, cells, ids, strict=True):
            line, used = self._head(row, None if width is None else room)
            if row.agent is not None or row.phase:
                aside = self._aside(row.agent) if row.agent is not None and width is None else ""
                line.append(" " * (room - used))
                line.append("".join("  " + told[at].rjust(widths[at]) for at in kept))
                line.append("".join(f"  {text}" for text in (agent_id, aside) if text))
            line.rstrip()
            line.no_wrap = True
            lines.append(line)
        return lines

    def _cells(self, row: TreeLine) -> list[str]:
        agent = row.agent
        if agent is None:
            return ["", f"{show_count(row.tokens)} tok", row.cost, ""] if row.phase else ["", "", "", ""]
        started, ended = agent["started_at"], agent["ended_at"] or self.now
        took = "" if started is None else show_duration(ended - started)
        return [show_number(agent["turns"], "turn"), f"{show_count(row.tokens)} tok", row.cost, took]

    def _head(self, row: TreeLine, room: int | None) -> tuple[Text, int]:
        """Draw name and activity in `room` cells, and return the used cells; without `room`, only the name."""
        line = Text(_guide(row.trunk, unicode=self.unicode), style="dim")
        agent = row.agent
        if row.phase:
            told = f"  {row.summary}"
            title = one_line(row.phase, 80)
            title = title if room is None else cut(title, room - line.cell_len - len(told))
            line.append(title, style="not dim bold").append(told)
            return line, line.cell_len
        if agent is None:
            text = ("… " if self.unicode else "... ") + row.summary
            line.append(text if room is None else cut(text, room - line.cell_len), style="dim")
            return line, line.cell_len
        line.append(f"{self._glyph(agent)} ", style=f"not dim {LOOKS[agent['state']][2]}")
        name = "" if agent["name"] is None else f"{one_line(agent['name'])} "
        label, below = one_line(agent["label"]), f" (+{row.below} below)" if row.below else ""
        aside = self._aside(agent)
        if room is not None:
            name, label, aside = _share(room - line.cell_len - len(below), name, label, aside)
        line.append(name, style="not dim bold")
        line.append(label, style="not dim")
        if agent["id"] in self.asking:
            line.append("  asks you", style="not dim bold yellow")
        line.append(below)
        if aside and room is not None:
            line.append(f"  {aside}")
        return line, line.cell_len

    def _aside(self, agent: Row) -> str:
        return one_line(describe_now(agent, self.alive[agent["id"]]), 160)

    def _glyph(self, agent: Row) -> str:
        fine, coarse, _ = LOOKS[agent["state"]]
        if self.live and self.unicode and agent["state"] == "running":
            return _SPINNER[int(self.now * _FRAMES_PER_SECOND) % len(_SPINNER)]
        return fine if self.unicode else coarse


def _beside(widths: Sequence[int], kept: Sequence[int], id_width: int) -> int:
    """Cells beside the names: the kept columns and the ids, each with its gap."""
    return sum(widths[at] + 2 for at in kept) + (id_width and id_width + 2)


def _choose_columns(widths: Sequence[int], id_width: int, width: int | None) -> list[int]:
    """Choose the columns that fit beside the name; dropped first are turns, then tokens, cost, time."""
    kept = list(range(len(widths)))
    if width is None:
        return kept
    least = _LEAST_BESIDE_IDS if id_width else round(width * _LEAST_SHARE)
    while kept and width - _beside(widths, kept, id_width) < least:
        kept.pop(0)
    return kept


def _share(room: int, name: str, label: str, aside: str) -> tuple[str, str, str]:
    """Fit name and activity into `room` cells: drop the type first, then cut both, to about half each."""
    beside = cell_len(aside) + 2 if aside else 0
    if cell_len(name + label) + beside > room:
        label = label.partition(": ")[2] or label
    if cell_len(name + label) + beside > room:
        label = cut(label, max(room - beside, room // 2) - cell_len(name)) or cut(label, 1)
        aside = cut(aside, room - cell_len(name + label) - 2)
    return name, label, aside


_COPIES = {
    "merged": "merged",
    "unchanged": "nothing to merge",
    "conflict": "not merged: it conflicts",
    "kept": "not merged",
    "left": "not merged",
    "failed": "not merged: that failed",
}


def describe_now(agent: Row, alive: int) -> str:
    """Describe an agent's activity, wait or end in a few words, with the state of its workspace copy.

    `alive` is the number of its running children.
    """
    copy = (
        ""
        if agent["isolation"] in ("", "none")
        else _COPIES.get(agent["merge"] if agent["ended"] else "", "in its own copy")
    )
    return " · ".join(filter(None, [_describe_state(agent, alive), copy]))


def _describe_state(agent: Row, alive: int) -> str:
    match agent["state"]:
        case "queued" if agent["unserved"]:
            return f"no worker can run it: {agent['unserved']}"
        case "parked" if agent["idle"]:
            return "idle"
        case "parked" if agent["activity"].startswith("waiting"):
            return str(agent["activity"])
        case "parked" if agent["question"] is not None:
            return f"waits for an answer: {agent['activity']}"
        case "parked" if alive:
            return f"waits for {show_number(alive, 'agent')}"
        case "parked":
            return f"waits: {agent['activity']}" if agent["activity"] else "waits"
        case "failed" | "cancelled" | "timed_out":
            return (
                f"{agent['state'].replace('_', ' ')}: {agent['reason']}"
                if agent["reason"]
                else agent["state"].replace("_", " ")
            )
        case "running" if agent["summary"]:
            return f"{agent['summary']} ({agent['activity']})" if agent["activity"] else agent["summary"]
        case "running":
            return str(agent["activity"])
        case _ if agent["stopped_at"]:
            return f"stopped at its limit of {agent['stopped_at']}"
        case _:
            return str(agent["verdict"])


def _guide(trunk: tuple[bool, ...], *, unicode: bool) -> str:
    if not trunk:
        return ""
    through, tee, corner = ("│  ", "├─ ", "└─ ") if unicode else ("|  ", "|- ", "`- ")
    return "".join(through if more else "   " for more in trunk[:-1]) + (tee if trunk[-1] else corner)


def sum_up(
    agents: Sequence[Row],
    width: int | None = None,
    *,
    job_id: str = "",
    now: float | None = None,
    unicode: bool = True,
) -> str:
    """The totals of a tree in one line of at most `width` cells; the least important are dropped first."""
    if not agents:
        return "  ".join(filter(None, [job_id, "starting"]))
    states = Counter(str(agent["state"]) for agent in agents)
    ends = [agent["ended_at"] for agent in agents if agent["ended"] and agent["ended_at"] is not None]
    end = max(ends) if len(ends) == len(agents) else now or time.time()
    cost = sum_money(agents)
    parts = {
        **({"id": job_id} if job_id else {}),
        "states": " · ".join(f"{states[state]} {state.replace('_', ' ')}" for state in LOOKS if states[state]),
        "turns": show_number(sum(agent["turns"] for agent in agents), "turn"),
        "tools": show_number(sum(agent["tools"] for agent in agents), "tool call"),
        "tokens": f"{show_count(sum(agent['tokens'] for agent in agents))} tokens",
        "cost": f"{cost} (rehearsed)" if agents[0]["rehearsed"] else cost,
        "time": show_duration(end - min(agent["created_at"] for agent in agents)),
    }
    return _narrow(parts, width, marks=_mark(states, unicode=unicode))


def _mark(states: Counter[str], *, unicode: bool) -> str:
    return " ".join(f"{look[not unicode]}{states[state]}" for state, look in LOOKS.items() if states[state])


def _narrow(parts: dict[str, str], width: int | None, *, marks: str) -> str:
    """Shorten the totals to `width` cells; `marks` replace the states if those do not fit."""
    for least in ("tools", "turns", "tokens"):
        if width is None or len(" · ".join(parts.values())) <= width:
            return " · ".join(parts.values())
        del parts[least]
    if len(" · ".join(parts.values())) > (width or 0):
        parts["states"] = marks
    return " · ".join(parts.values())
