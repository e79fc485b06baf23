"""Panels of time and cost: each agent's times of waiting and running, and the cost by definition, model and agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from swarm.client.swarm import Swarm
from swarm.core.records import Event
from swarm.streaming.live.reader import LiveReader
from swarm.streaming.live.rows import Row

_PAGE = 2_000
_STATES = {
    **dict.fromkeys(("job_started", "spawned", "woken", "handed_over", "rescued", "resumed"), "queued"),
    **{"running": "running", "parked": "parked", "ended": "ended"},
}
"""Event kind → the agent's state after it."""
_TOKENS = ("input", "output", "cache_write", "cache_read")
_SUMS = ("turns", "tools", *_TOKENS, "cost_usd", "estimated_usd", "unpriced_tokens", "reckoned_usd")
_SHOWN_AGENTS = 100


def read_timeline(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Read a lane for each agent, parents before their children. Raises `UnknownAgent`."""
    reader = LiveReader(swarm.store)
    snapshot = reader.snapshot(job_id)
    events: list[Event] = []
    while page := reader.events(job_id, events[-1].id if events else "0-0", _PAGE):
        events += page
    spans = make_spans(snapshot.agents, events)
    lanes = [{"id": agent_id, "spans": spans[agent_id]} for agent_id in snapshot.agents]
    whole = bool(events) and events[0].kind == "job_started"
    return {"from": snapshot.job["created_at"], "cut": not whole, "lanes": lanes}


def make_spans(agents: Mapping[str, Row], events: Iterable[Event]) -> dict[str, list[list[Any]]]:
    """Make each agent's spans `[state, from, to]`; `to` is None for the current one."""
    spans: dict[str, list[list[Any]]] = {agent_id: [] for agent_id in agents}
    for event in events:
        state, lane = _STATES.get(event.kind), spans.get(event.agent_id)
        if state is None or lane is None:
            continue
        if lane and lane[-1][2] is None:
            lane[-1][2] = event.at
        if state != "ended":
            lane.append([state, event.at, None])
    for agent_id, lane in spans.items():
        row = agents[agent_id]
        first = lane[0][1] if lane else row["ended_at"]
        if row["created_at"] is not None and (first is None or row["created_at"] < first - 1):
            # Its first events are trimmed: only the times of creation and beginning remain.
            lane[:0] = _beginning(row, first)
    return spans


def _beginning(row: Row, until: float | None) -> list[list[Any]]:
    began = row["started_at"]
    if began is None:
        return [["queued", row["created_at"], until]]
    return [["queued", row["created_at"], began], ["running", began, until]]


def read_cost(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Read the cost and its limits. Raises `UnknownAgent`."""
    snapshot = LiveReader(swarm.store).snapshot(job_id)
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
    """Sum the cost of each agent's descendants; `agents` has parents before their children."""
    below = {agent_id: {"below_usd": 0.0, "below_reckoned_usd": 0.0, "below_tokens": 0} for agent_id in agents}
    for agent_id in reversed(list(agents)):
        row = agents[agent_id]
        if (above := below.get(row["parent_id"] or "")) is not None:
            above["below_usd"] += (row["cost_usd"] or 0.0) + below[agent_id]["below_usd"]
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
    sums = {name: sum(row[name] or 0 for row in rows) for name in _SUMS}
    return sums if sums["cost_usd"] or not sums["unpriced_tokens"] else {**sums, "cost_usd": None}
