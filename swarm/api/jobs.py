"""Endpoints about whole jobs: start, list, wait, cancel, and what a job's agents share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from swarm.agent.spec import DEFAULT_AGENT, Limits
from swarm.api.endpoint import Body, Call, Endpoint, Folder, Returned, Wait
from swarm.capabilities.team.board import TaskTexts, TaskView
from swarm.capabilities.team.scratchpad import PageView
from swarm.client.swarm import Job
from swarm.core.records import AgentView, JobView
from swarm.definitions.model import PermissionMode

IDEMPOTENCY_HEADER = "Idempotency-Key"


class NewWork(Body):
    """What jobs and the lines of maps are ordered with; what the fields mean says `Swarm.submit`."""

    prompt: str
    workspace: Folder
    """A folder of the workers' hosts."""
    title: str | None = None
    model: str | None = None
    mode: PermissionMode | None = None
    limits: Limits | None = None
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []
    network: bool = False
    result_schema: dict[str, Any] | None = None
    """A JSON Schema for the answer, which is then in `data`."""
    instruction_files: bool = True
    """Whether its agents are given the instruction files that apply in the workspace."""
    priority: int = Field(default=1, ge=1, le=100)


class NewJob(NewWork):
    """A job to start."""

    agent: str = DEFAULT_AGENT
    ask_seconds: float | None = Field(default=None, ge=0)
    """How long a question to a person can be answered; 0: nobody is there."""
    check: str | None = None
    """A shell command that must exit with 0 before the answer is accepted."""
    rubric: str | None = None
    """Criteria that a grader must find met."""
    tries: int | None = Field(default=None, ge=1, le=20)
    """How often the work may be handed in; default: 3."""
    check_seconds: float | None = Field(default=None, gt=0, le=3_600)
    """The time limit of the check; default: 600."""
    summaries: bool = False
    """Have a small model tell what agents do, name the job, and sum up its end."""


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
    order: NewJob = call.body
    key = call.headers.get(IDEMPOTENCY_HEADER.lower())
    # Each caller has idempotency keys of its own: nobody finds the job of somebody else by guessing.
    own_key = None if key is None else f"{call.key.name}/{key}"
    job = call.swarm.submit(**dict(order), idempotency_key=own_key)
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
