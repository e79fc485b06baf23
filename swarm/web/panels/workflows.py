"""The panel of a job's workflows: phases, calls and values."""

from __future__ import annotations

from typing import Any

from swarm.client.swarm import Swarm
from swarm.client.workflow_calls import read_calls
from swarm.core.errors import ConfigurationError
from swarm.web.panels.panel import Panel


def read_workflow(swarm: Swarm, job_id: str, agent_id: str | None) -> dict[str, Any]:
    """Read the calls of the open agent or of the job's first one; none if it is no workflow. Raises `UnknownAgent`."""
    agent_id = agent_id or swarm.job(job_id).view().root_id
    try:
        found = read_calls(swarm, agent_id, values=True)
    except ConfigurationError:
        return {"agent": None, "now": "", "phases": [], "calls": []}
    return {"agent": agent_id, **found.model_dump(mode="json")}


PANELS = (
    Panel(
        "workflow",
        "Phases",
        lambda asked: read_workflow(asked.swarm, asked.job_id, asked.query.get("of")),
        stale_on=frozenset({"spawned", "ended", "note", "progress"}),
    ),
)
