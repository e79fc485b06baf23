"""Endpoints about whole jobs: start, list, wait, cancel, and what a job's agents share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model

from swarm.api.endpoint import Body, Call, Endpoint, Folder, Returned, Wait
from swarm.capabilities.team.board import TaskTexts, TaskView
from swarm.capabilities.team.scratchpad import PageView
from swarm.client.order import REMOTE_LEAVES_OUT, Order, options_of
from swarm.client.swarm import Job
from swarm.core.records import AgentView, JobView

IDEMPOTENCY_HEADER = "Idempotency-Key"


IN_FOLDER: dict[str, Any] = {
    "workspace": (Annotated[Folder, Field(description="A folder of the workers' hosts.")], ...)
}
NewJob = create_model(
    "NewJob", __base__=Body, __doc__="A job to start.", **(options_of(Order, REMOTE_LEAVES_OUT) | IN_FOLDER)
)


class StartedJob(BaseModel):
    """A job that was started, now or by an earlier request with the same idempotency key."""

    job: JobView
    warnings: list[str]
    """What settings files held that could not be used."""


class Jobs(BaseModel):
    """Jobs, newest first."""

    jobs: list[JobView]


class ListQuery(Body):
    """Which jobs are listed."""

    count: int = Field(default=50, ge=1, le=1000)
    """So many of the newest are looked at."""
    state: str | None = None
    """Only those in this state."""


class Reason(Body):
    """Why something is cancelled."""

    reason: str = "cancelled over the API"


class Agents(BaseModel):
    """The agents of a job, parents before their children."""

    agents: list[AgentView]


class BoardTask(BaseModel):
    """A task of the board with its texts."""

    task: TaskView
    texts: TaskTexts


class BoardTasks(BaseModel):
    """A job's task board."""

    tasks: list[BoardTask]


class Pages(BaseModel):
    """The pages of a scratchpad, without their texts."""

    pages: list[PageView]


class PageText(BaseModel):
    """One page of a scratchpad."""

    page: PageView
    text: str


def start_job(call: Call) -> Returned:
    """Start a job. With an idempotency key, a request that is sent again starts no second one (and returns 200)."""
    key = call.headers.get(IDEMPOTENCY_HEADER.lower())
    # Each caller has idempotency keys of its own: nobody finds the job of somebody else by guessing.
    own_key = None if key is None else f"{call.key.name}/{key}"
    job = call.swarm.submit(**call.body.model_dump(exclude_unset=True), idempotency_key=own_key)
    return Returned(StartedJob(job=job.view(), warnings=job.warnings), 201 if job.new else 200)


def list_jobs(call: Call) -> Jobs:
    """The newest jobs."""
    wanted: ListQuery = call.query
    return Jobs(jobs=[job for job in call.swarm.jobs(wanted.count) if wanted.state in (None, job.state)])


def get_job(call: Call) -> JobView:
    """One job as it stands, its answer once it has ended; with `wait`, its end is waited for."""
    job = _job(call)
    if call.query.wait:
        try:
            return job.wait(call.query.wait)
        except TimeoutError:
            pass
    return job.view()


def cancel_job(call: Call) -> JobView:
    """Cancel a job with all its agents, at once and for good; one that has ended stays as it is."""
    job = _job(call)
    job.cancel(call.body.reason, by=call.key.name)
    return job.view()


def list_agents(call: Call) -> Agents:
    """All agents of a job: its tree, by their `parent_id`."""
    return Agents(agents=_job(call).agents())


def get_board(call: Call) -> BoardTasks:
    """The task board that a job's agents share."""
    job = _job(call)
    texts = job.task_texts()
    return BoardTasks(tasks=[BoardTask(task=task, texts=texts.get(task.number, TaskTexts())) for task in job.board()])


def list_pages(call: Call) -> Pages:
    """The pages of the scratchpad that a job's agents share."""
    return Pages(pages=_job(call).pad())


def get_page(call: Call) -> PageText:
    """One page of the scratchpad."""
    page, text = _job(call).page(call.path["page"])
    return PageText(page=page, text=text)


def _job(call: Call) -> Job:
    return call.swarm.job(call.path["job"])


JOB_ENDPOINTS = [
    Endpoint(
        "POST",
        "/v1/jobs",
        "submit",
        start_job,
        StartedJob,
        body=NewJob,
        status=201,
        headers={IDEMPOTENCY_HEADER: "Any text that only this order has: sent again with it, it starts no second job."},
    ),
    Endpoint("GET", "/v1/jobs", "read", list_jobs, Jobs, query=ListQuery),
    Endpoint("GET", "/v1/jobs/{job}", "read", get_job, JobView, query=Wait),
    Endpoint("POST", "/v1/jobs/{job}/cancel", "cancel", cancel_job, JobView, body=Reason),
    Endpoint("GET", "/v1/jobs/{job}/agents", "read", list_agents, Agents),
    Endpoint("GET", "/v1/jobs/{job}/board", "read", get_board, BoardTasks),
    Endpoint("GET", "/v1/jobs/{job}/pad", "read", list_pages, Pages),
    Endpoint("GET", "/v1/jobs/{job}/pad/{page:path}", "read", get_page, PageText),
]
