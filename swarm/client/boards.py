"""Reads of a job's shared state: the task board and the scratchpad."""

from __future__ import annotations

from pydantic import BaseModel

from swarm.capabilities.team.board import TaskTexts, TaskView
from swarm.capabilities.team.scratchpad import PadPage
from swarm.client.operations import Invocation, JobId
from swarm.client.reads import READS


class BoardTask(BaseModel):
    """A task of the board with its texts."""

    task: TaskView
    texts: TaskTexts


class PageText(BaseModel):
    """One page of a scratchpad."""

    page: PadPage
    text: str


@READS.get("/jobs/{job}/board", wrap="tasks")
def get_board(call: Invocation, job: JobId) -> list[BoardTask]:
    """The task board of a job's agents."""
    found = call.swarm.job(job)
    texts = found.task_texts()
    return [BoardTask(task=task, texts=texts.get(task.number, TaskTexts())) for task in found.board()]


@READS.get("/jobs/{job}/pad", wrap="pages")
def list_pages(call: Invocation, job: JobId) -> list[PadPage]:
    """The pages of the scratchpad of a job's agents, without their texts."""
    return call.swarm.job(job).pad()


@READS.get("/jobs/{job}/pad/{page:path}")
def get_page(call: Invocation, job: JobId, page: str) -> PageText:
    """One page of the scratchpad."""
    view, text = call.swarm.job(job).page(page)
    return PageText(page=view, text=text)
