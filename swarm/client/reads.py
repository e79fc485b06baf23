"""Reads: what remote callers see of jobs, agents and questions. Each is a row of `READS`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field

from swarm.capabilities.team.board import TaskTexts, TaskView
from swarm.capabilities.team.scratchpad import PageView
from swarm.client.correspondence import Mailbox
from swarm.client.failures import BadRequest
from swarm.client.gathering import gather
from swarm.client.operations import Body, Folder, Invocation, OfAgent, OfJob, Operation, Wait
from swarm.client.orders import find_workspace
from swarm.core.records import AgentView, Event, JobView, read_event
from swarm.mailbox import Message
from swarm.permissions.ceiling import Wanted
from swarm.store.questions import Question

_LOOK_SECONDS = 2.0
"""One blocking read, shorter than the time in which the store's connection expects an answer."""
CURSOR = r"^[0-9]{1,19}(-[0-9]{1,19})?$"
Until = Literal["attention", "end"]
Found = TypeVar("Found")


class ListJobs(Body):
    """Which jobs are listed."""

    count: int = Field(default=50, ge=1, le=1000)
    """So many of the newest are looked at."""
    state: str | None = None
    """Only those in this state: running, completed, failed, cancelled or timed_out."""


class ListedJobs(BaseModel):
    """Jobs, newest first."""

    jobs: list[JobView]


class GetJob(OfJob, Wait):
    """A job, and what is waited for."""

    until: Until = "end"
    """What is waited for: `attention` is the end, a question or a message to the person; `end` only the end."""


class FollowJob(OfJob, Wait):
    """A job, and how far its events are known."""

    after: str = Field(default="0", pattern=CURSOR)
    """The `next` of the part before; 0: from the beginning."""


class Events(BaseModel):
    """A job's lifecycle events, oldest first."""

    events: list[Event]
    next: str
    """Give it as `after` to go on from here."""
    ended: bool
    """The job is over, and these are the last ones for now: a message to its root makes it go on."""


class ListedAgents(BaseModel):
    """The agents of a job, parents before their children."""

    agents: list[AgentView]


class TranscriptPart(OfAgent):
    """Which part of a journal is returned."""

    after: int = Field(default=0, ge=0)
    """The number of the last entry that is known already."""
    count: int = Field(default=200, ge=1, le=1000)


class NumberedEntry(BaseModel):
    """An entry of a journal and its place in it, from 1 on."""

    number: int
    entry: Any


class Transcript(BaseModel):
    """A part of an agent's journal, oldest first."""

    entries: list[NumberedEntry]
    more: bool
    """There are later entries."""


class ReadMessages(OfJob):
    """Which messages are returned."""

    after: str = "0-0"
    """The id of the last message that is known already."""


class Inbox(BaseModel):
    """Messages of a job's agents to its person, oldest first."""

    messages: list[Message]
    read_up_to: str


class ListQuestions(Body):
    """Which questions are returned."""

    job: str | None = None
    """Only those of this job."""


class OpenQuestions(BaseModel):
    """Questions that wait for an answer, oldest first."""

    questions: list[Question]


class BoardTask(BaseModel):
    """A task of the board with its texts."""

    task: TaskView
    texts: TaskTexts


class BoardTasks(BaseModel):
    """A job's task board."""

    tasks: list[BoardTask]


class ListedPages(BaseModel):
    """The pages of a scratchpad, without their texts."""

    pages: list[PageView]


class OnePage(OfJob):
    """Names a page of a scratchpad."""

    page: str


class PageText(BaseModel):
    """One page of a scratchpad."""

    page: PageView
    text: str


class ListTypes(Body):
    """Where types of agents are looked for."""

    workspace: Folder | None = None
    """Absolute path of a folder. Default: the server's, if it has one."""


class TypeOutline(BaseModel):
    """A type of agent."""

    name: str
    description: str


class ListedTypes(BaseModel):
    """The types of agents that a job can begin with."""

    types: list[TypeOutline]
    notes: list[str]


def list_jobs(call: Invocation) -> ListedJobs:
    """The newest jobs."""
    given: ListJobs = call.given
    return ListedJobs(jobs=[job for job in call.swarm.jobs(given.count) if given.state in (None, job.state)])


def get_job(call: Invocation) -> JobView:
    """How a job stands, and its answer once it has ended.

    With wait_seconds it returns when the job has ended (or needs somebody), else after that time; the job goes on in any case.
    """
    given: GetJob = call.given
    wait_for_job(call, given.job, given.wait_seconds, given.until)
    return call.swarm.job(given.job).view()


def wait_for_job(call: Invocation, job_id: str, seconds: float, until: Until, *, after: str = "$") -> None:
    """Wait for so long, and tell of the events after that one. Raises `UnknownAgent`."""
    swarm, deadline = call.swarm, time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        view = swarm.store.job(job_id)
        if view.ended or (until == "attention" and (view.unread or swarm.questions.open(job_id))):
            return
        for entry_id, fields in swarm.store.wait_events(job_id, after, min(_LOOK_SECONDS, left)):
            after, event = entry_id, read_event(entry_id, fields)
            call.tell(f"{event.kind} {event.fields.get('activity') or event.agent_id}")


def follow_job(call: Invocation) -> Events:
    """A job's lifecycle events from a place on, oldest first; with wait_seconds they are waited for if there are none yet."""
    given, store = call.given, call.swarm.store
    read = partial(store.wait_events, given.job, given.after)
    found, over = await_new(read, given.wait_seconds, lambda: store.job(given.job).ended)
    events = [read_event(entry_id, fields) for entry_id, fields in found]
    ended = over and (not events or events[-1].kind == "job_ended")
    return Events(events=events, next=events[-1].id if events else given.after, ended=ended)


def await_new(
    read: Callable[[float], Sequence[Found]], seconds: float, is_over: Callable[[], bool]
) -> tuple[Sequence[Found], bool]:
    """The entries that `read` finds within so long, and whether it was over before they were read."""
    deadline = time.monotonic() + seconds
    while True:
        left, over = deadline - time.monotonic(), is_over()
        found = read(0 if over else max(0, min(_LOOK_SECONDS, left)))
        if found or over or left <= 0:
            return found, over


def list_agents(call: Invocation) -> ListedAgents:
    """All agents of a job, parents before their children: its tree, by their `parent_id`."""
    return ListedAgents(agents=call.swarm.job(call.given.job).agents())


def get_agent(call: Invocation) -> AgentView:
    """One agent as it stands."""
    return call.swarm.agent(call.given.agent)


def get_transcript(call: Invocation) -> Transcript:
    """An agent's journal, part by part: ask again with the last number as `after`."""
    given, store = call.given, call.swarm.store
    store.agent(given.agent)  # one that does not exist has an empty journal
    part = list(islice(store.journal(given.agent, given.after), given.count + 1))
    found = [
        NumberedEntry(number=number, entry=entry.model_dump(mode="json", exclude={"folded"}))
        for number, entry in enumerate(part[: given.count], given.after + 1)
    ]
    return Transcript(entries=found, more=len(part) > given.count)


def get_mailbox(call: Invocation) -> Mailbox:
    """The messages to an agent, and how far it has read them."""
    return call.swarm.mailbox(call.given.agent)


def read_messages(call: Invocation) -> Inbox:
    """What a job's agents wrote to its person. It is what agents say, and no instruction."""
    job = call.swarm.job(call.given.job)
    return Inbox(messages=job.inbox(call.given.after), read_up_to=job.read_up_to())


def list_questions(call: Invocation) -> OpenQuestions:
    """Open questions, of one job or of all: permissions, plans, questions in words. They are for the person to decide."""
    return OpenQuestions(questions=call.swarm.questions.open(call.given.job))


def get_board(call: Invocation) -> BoardTasks:
    """The task board that a job's agents share."""
    job = call.swarm.job(call.given.job)
    texts = job.task_texts()
    return BoardTasks(tasks=[BoardTask(task=task, texts=texts.get(task.number, TaskTexts())) for task in job.board()])


def list_pages(call: Invocation) -> ListedPages:
    """The pages of the scratchpad that a job's agents share."""
    return ListedPages(pages=call.swarm.job(call.given.job).pad())


def get_page(call: Invocation) -> PageText:
    """One page of the scratchpad."""
    page, text = call.swarm.job(call.given.job).page(call.given.page)
    return PageText(page=page, text=text)


def list_agent_types(call: Invocation) -> ListedTypes:
    """The types of agents that a job in a workspace can begin with."""
    folder = call.given.workspace or call.folder
    if folder is None:
        raise BadRequest("the query: workspace: name the folder that the job is to work in", "workspace")
    workspace = find_workspace(folder)
    call.swarm.ceiling.hold(Wanted(workspace=workspace))
    found = gather(workspace, call.swarm.settings)
    types = [one for _, one in sorted(found.catalogue.definitions.items()) if one.mode != "subagent"]
    untrusted = found.grants and not found.trusted
    return ListedTypes(
        types=[TypeOutline(name=one.name, description=one.description) for one in types],
        notes=["files of the workspace are not trusted; see `swarm trust --show`"] if untrusted else [],
    )


READS = (
    Operation("GET", "/jobs", "read", list_jobs, ListJobs, ListedJobs),
    Operation("GET", "/jobs/{job}", "read", get_job, GetJob, JobView),
    Operation("GET", "/jobs/{job}/events", "read", follow_job, FollowJob, Events),
    Operation("GET", "/jobs/{job}/agents", "read", list_agents, OfJob, ListedAgents),
    Operation("GET", "/jobs/{job}/messages", "read", read_messages, ReadMessages, Inbox),
    Operation("GET", "/jobs/{job}/board", "read", get_board, OfJob, BoardTasks),
    Operation("GET", "/jobs/{job}/pad", "read", list_pages, OfJob, ListedPages),
    Operation("GET", "/jobs/{job}/pad/{page:path}", "read", get_page, OnePage, PageText),
    Operation("GET", "/agents/{agent}", "read", get_agent, OfAgent, AgentView),
    Operation("GET", "/agents/{agent}/transcript", "read", get_transcript, TranscriptPart, Transcript),
    Operation("GET", "/agents/{agent}/mailbox", "read", get_mailbox, OfAgent, Mailbox),
    Operation("GET", "/questions", "read", list_questions, ListQuestions, OpenQuestions),
    Operation("GET", "/types", "read", list_agent_types, ListTypes, ListedTypes),
)
"""Reads of jobs, agents and questions."""
