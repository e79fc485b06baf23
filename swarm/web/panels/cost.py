"""The panel of costs: what a job has spent, by definition, by model and by agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from swarm.client import Swarm
from swarm.live.reading import Reader
from swarm.live.rows import Row

_SUMS = ("turns", "tools", "input", "output", "cache_write", "cache_read", "cost_usd", "reckoned_usd")
_TOKENS = ("input", "output", "cache_write", "cache_read")
_SHOWN_AGENTS = 100


def read_cost(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """What has been spent and what may be. Raises `UnknownAgent`."""
    snapshot = Reader(swarm.store).snapshot(job_id)
    agents, job = list(snapshot.agents.values()), snapshot.job
    below = sum_below(snapshot.agents)
    dearest = sorted(agents, key=lambda row: -row["reckoned_usd"])[:_SHOWN_AGENTS]
    return {
        "total": {name: job[name] for name in _SUMS},
        "limits": {name: job[name] for name in ("budget_usd", "max_tokens", "reserved_usd", "reserved_tokens")},
        "by_definition": _group(agents, lambda row: str(row["definition"])),
        "by_model": _group(agents, lambda row: str(row["model"])),
        "by_agent": [{"id": row["id"], "label": row["label"], **_sums([row]), **below[row["id"]]} for row in dearest],
    }


def sum_below(agents: Mapping[str, Row]) -> dict[str, dict[str, float]]:
    """By agent, what those below it have spent; parents come before their children."""
    below = {agent_id: {"below_usd": 0.0, "below_reckoned_usd": 0.0, "below_tokens": 0} for agent_id in agents}
    for agent_id in reversed(list(agents)):
        row = agents[agent_id]
        if (above := below.get(row["parent_id"] or "")) is not None:
            above["below_usd"] += row["cost_usd"] + below[agent_id]["below_usd"]
            above["below_reckoned_usd"] += row["reckoned_usd"] + below[agent_id]["below_reckoned_usd"]
            above["below_tokens"] += sum(row[name] for name in _TOKENS) + below[agent_id]["below_tokens"]
    return below


def _group(agents: Iterable[Row], name_of: Callable[[Row], str]) -> list[dict[str, Any]]:
    groups: dict[str, list[Row]] = {}
    for row in agents:
        groups.setdefault(name_of(row), []).append(row)
    found = [{"name": name, "agents": len(rows), **_sums(rows)} for name, rows in groups.items()]
    return sorted(found, key=lambda group: -group["reckoned_usd"])


def _sums(rows: Iterable[Row]) -> dict[str, Any]:
    rows = list(rows)
    return {name: sum(row[name] for row in rows) for name in _SUMS}
