"""The panel of time: when each agent of a job stood in the queue, ran and was parked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from swarm.client import Swarm
from swarm.live.reading import Reader
from swarm.live.rows import Row
from swarm.records import Event

_PAGE = 2_000
_STATES = {
    **dict.fromkeys(("job_started", "spawned", "woken", "handed_over", "rescued", "resumed"), "queued"),
    **{"running": "running", "parked": "parked", "ended": "ended"},
}
"""What an agent is after an event of this kind."""


def read_timeline(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """A lane for each agent, parents before their children. Raises `UnknownAgent`."""
    reader = Reader(swarm.store)
    snapshot = reader.snapshot(job_id)
    events: list[Event] = []
    while page := reader.events(job_id, events[-1].id if events else "0-0", _PAGE):
        events += page
    spans = make_spans(snapshot.agents, events)
    lanes = [{"id": agent_id, "spans": spans[agent_id]} for agent_id in snapshot.agents]
    whole = bool(events) and events[0].kind == "job_started"
    return {"from": snapshot.job["created_at"], "cut": not whole, "lanes": lanes}


def make_spans(agents: Mapping[str, Row], events: Iterable[Event]) -> dict[str, list[list[Any]]]:
    """By agent, the stretches of its life: state, from, to; None for one that lasts."""
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
            # Its first events are trimmed away: what is left is when it was made, and when it began.
            lane[:0] = _beginning(row, first)
    return spans


def _beginning(row: Row, until: float | None) -> list[list[Any]]:
    began = row["started_at"]
    if began is None:
        return [["queued", row["created_at"], until]]
    return [["queued", row["created_at"], began], ["running", began, until]]
