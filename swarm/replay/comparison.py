"""Compare two jobs: agents that did the same, the turns at which others diverge, and the totals. Pure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from swarm.core.usage import COUNTERS
from swarm.replay.past import Past, PastAgent


@dataclass(frozen=True)
class Difference:
    """The comparison of one agent, identified by its place in the tree."""

    place: str
    """Labels from the first agent down to this one."""
    turns: tuple[int, int]
    diverges: int | None
    """First turn with different replies; None if they match as far as both go."""
    replies: tuple[str, str] = ("", "")
    """Text and calls of both replies in that turn."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of jobs `a` and `b`."""

    agents: list[Difference]
    only: tuple[list[str], list[str]]
    """Places that exist only in `a`, and only in `b`."""
    totals: dict[str, tuple[Any, Any]]
    answers: tuple[str, str]


def compare(a: Past, b: Past) -> Comparison:
    """Compare two jobs; agents are matched by their place in the tree, not by id."""
    left, right = _places(a), _places(b)
    both = [place for place in left if place in right]
    return Comparison(
        [_differ(place, left[place], right[place]) for place in both],
        ([place for place in left if place not in right], [place for place in right if place not in left]),
        {name: (_total(a, name), _total(b, name)) for name in ("state", "agents", *COUNTERS)},
        (a.fields.get("text", ""), b.fields.get("text", "")),
    )


def _total(past: Past, name: str) -> Any:
    if name == "state":
        return past.fields.get(name, "")
    return len(past.agents) if name == "agents" else sum(int(one.fields.get(name) or 0) for one in past.agents.values())


def _places(past: Past) -> dict[str, PastAgent]:
    found: dict[str, PastAgent] = {}
    named: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for agent in past.agents.values():
        above = named.get(agent.parent, "")
        label = (
            agent.fields.get("definition", "")
            if not above
            else agent.fields.get("name") or agent.fields.get("label", "")
        )
        place = f"{above} / {label}" if above else label
        seen[place] += 1
        named[agent.id] = f"{place} ({seen[place]})" if seen[place] > 1 else place
        found[named[agent.id]] = agent
    return found


def _differ(place: str, a: PastAgent, b: PastAgent) -> Difference:
    left, right = _replies(a), _replies(b)
    for turn, (one, other) in enumerate(zip(left, right, strict=False), 1):
        if one != other:
            return Difference(place, (len(left), len(right)), turn, (one, other))
    return Difference(place, (len(left), len(right)), None)


def _replies(agent: PastAgent) -> list[str]:
    return [_show(one.document["content"]) for one in agent.entries if one.document["kind"] == "assistant"]


def _show(content: list[dict[str, Any]]) -> str:
    """Format a reply without its unique ids."""
    lines = [str(block["text"]) for block in content if block.get("type") == "text"]
    calls = [block for block in content if block.get("type") == "tool_use"]
    return "\n".join(
        [*lines, *(f"{call['name']} {json.dumps(call['input'], sort_keys=True, ensure_ascii=False)}" for call in calls)]
    )
