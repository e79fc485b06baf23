"""Panels of a job's shared state: the team with its board, and the scratchpad."""

from __future__ import annotations

from typing import Any

from swarm.capabilities.team.teams import Teams
from swarm.client.swarm import Swarm
from swarm.web.panels.panel import Panel


def read_board(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """The tasks of a job's board with their texts, and its team. Raises `UnknownAgent`."""
    job = swarm.job(job_id)
    texts = job.task_texts()
    tasks = [
        {**task.model_dump(mode="json"), **texts[task.number].model_dump()}
        for task in job.board()
        if task.number in texts
    ]
    found = Teams(swarm.store.keyspace, job_id).find()
    team = None if found is None else {"name": found.name, "description": found.description, "lead": found.lead}
    return {"tasks": tasks, "team": team}


def read_pad(swarm: Swarm, job_id: str, page: str | None) -> dict[str, Any]:
    """The pages of a job's scratchpad, or one page and its text. Raises `UnknownAgent`, `PadRefused`."""
    job = swarm.job(job_id)
    if page is None:
        return {"pages": [each.model_dump(mode="json") for each in job.pad()]}
    view, text = job.page(page)
    return {"page": view.model_dump(mode="json"), "text": text}


PANELS = (
    Panel(
        "board",
        "Board",
        lambda asked: read_board(asked.swarm, asked.job_id),
        stale_on=frozenset({"board", "team"}),
    ),
    Panel(
        "pad",
        "Scratchpad",
        lambda asked: read_pad(asked.swarm, asked.job_id, asked.query.get("page")),
        stale_on=frozenset({"pad"}),
    ),
)
