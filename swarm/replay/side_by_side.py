"""Two jobs side by side: totals, calls by tool, files, answers, and the places where their agents part."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from swarm.client.swarm import Swarm
from swarm.core.errors import GitFailed, NoWork
from swarm.core.records import JobView
from swarm.definitions.tools import row_of
from swarm.replay.comparison import Comparison, compare
from swarm.replay.past import Past, read_past

_FIGURES = ("state", "agents", "turns", "tools", "tokens", "cost_usd", "seconds")
_EDITED = "edited"
"""The change of a file that only the calls of an agent tell, because no copy was kept."""


class SideBySide:
    """The comparison of jobs `a` and `b`. Reading changes nothing. Raises `UnknownAgent`."""

    def __init__(self, swarm: Swarm, a: str, b: str) -> None:
        self.jobs = (swarm.job(a).view(), swarm.job(b).view())
        past = (read_past(swarm.store, a), read_past(swarm.store, b))
        self.agents: Comparison = compare(*past)
        self.tools = _pair(*map(_count_calls, past))
        """Number of calls of each tool, in both."""
        self.files = _pair(*(_list_files(swarm, view, one) for view, one in zip(self.jobs, past, strict=True)))
        """How each file changed, in both; empty where it did not."""

    @property
    def figures(self) -> dict[str, tuple[Any, Any]]:
        """State, agents, turns, calls, tokens, dollars and seconds, in both."""
        a, b = map(_figures_of, self.jobs)
        return {name: (a[name], b[name]) for name in _FIGURES}

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        a, b = self.jobs
        about = {"a": a.id, "b": b.id, "titles": (a.title, b.title), "figures": self.figures}
        return {**about, "tools": self.tools, "files": self.files, **asdict(self.agents), "answers": (a.text, b.text)}


def _figures_of(view: JobView) -> dict[str, Any]:
    shown = {name: getattr(view, name) for name in ("state", "agents", "turns", "tools")}
    seconds = round((view.ended_at or view.created_at) - view.created_at, 3)
    dollars = view.cost_usd if not view.rehearsed else 0.0
    return {**shown, "tokens": view.usage.total_tokens, "cost_usd": dollars, "seconds": seconds}


def _pair(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    empty: Any = 0 if isinstance(a, Counter) else ""
    return {name: (a.get(name, empty), b.get(name, empty)) for name in sorted({*a, *b})}


def _calls(past: Past) -> list[dict[str, Any]]:
    return [
        block
        for agent in past.agents.values()
        for entry in agent.entries
        if entry.document["kind"] == "assistant"
        for block in entry.document["content"]
        if block.get("type") == "tool_use"
    ]


def _count_calls(past: Past) -> dict[str, Any]:
    return Counter(block["name"] for block in _calls(past))


def _list_files(swarm: Swarm, view: JobView, past: Past) -> dict[str, str]:
    try:
        return swarm.work(past.root).changes
    except (NoWork, GitFailed):
        edits = [(row_of(block["name"]), block["input"]) for block in _calls(past)]
        paths = [
            str(given.get(row.subject, "")) for row, given in edits if row.writes_files and isinstance(given, dict)
        ]
        return {path.removeprefix(f"{view.workspace}/"): _EDITED for path in paths if path}
