"""The panels of the board and of the scratchpad."""

from __future__ import annotations

from typing import Any

from swarm.client import Swarm
from swarm.team.teams import Teams


def read_board(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """The tasks of a job's board with their texts, and its team. Raises `UnknownAgent`."""
    job = swarm.job(job_id)
    texts = job.task_texts()
    tasks = [
        {**task.model_dump(mode="json"), **texts[task.number].model_dump()}
        for task in job.board()
        if task.number in texts
    ]
    found = Teams(swarm.store, job_id).find()
    team = None if found is None else {"name": found.name, "description": found.description, "lead": found.lead}
    return {"tasks": tasks, "team": team}


def read_pad(swarm: Swarm, job_id: str, page: str | None) -> dict[str, Any]:
    """The pages of a job's scratchpad, or one page and its text. Raises `UnknownAgent`, `PadRefused`."""
    job = swarm.job(job_id)
    if page is None:
        return {"pages": [each.model_dump(mode="json") for each in job.pad()]}
    view, text = job.page(page)
    return {"page": view.model_dump(mode="json"), "text": text}
