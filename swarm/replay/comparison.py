"""Two jobs side by side: who did the same in both, from which turn on somebody did something else, and what each took. Pure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from swarm.core.records import COUNTERS
from swarm.replay.past import Past, PastAgent


@dataclass(frozen=True)
class Difference:
    """One agent of one or both jobs, under its place in the tree."""

    place: str
    """The labels from the first agent down."""
    turns: tuple[int, int]
    diverges: int | None
    """The first turn in which the replies are not the same; None: they are, as far as both go."""
    replies: tuple[str, str] = ("", "")
    """What each said and called there."""


@dataclass(frozen=True)
class Comparison:
    """Two jobs, `a` and `b`."""

    agents: list[Difference]
    only: tuple[list[str], list[str]]
    """Places that only the one, and only the other, has."""
    totals: dict[str, tuple[Any, Any]]
    answers: tuple[str, str]


def compare(a: Past, b: Past) -> Comparison:
    """How two jobs differ; agents are the same by their place in the tree, whatever their ids."""
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
    """A reply without the ids that every reply has anew."""
    lines = [str(block["text"]) for block in content if block.get("type") == "text"]
    calls = [block for block in content if block.get("type") == "tool_use"]
    return "\n".join(
        [*lines, *(f"{call['name']} {json.dumps(call['input'], sort_keys=True, ensure_ascii=False)}" for call in calls)]
    )
