"""Acts: what remote callers do to jobs, agents, questions and maps. Each is a row of `ACTS`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model

from swarm.capabilities.mapping.maps import MapView
from swarm.client.failures import explain
from swarm.client.messages import Delivery
from swarm.client.operations import AgentId, Body, Folder, Invocation, JobId, MapId, Table, WaitSeconds, Words
from swarm.client.order import REMOTE_LEAVES_OUT, MapOrder, Order, options_of
from swarm.client.reads import wait_for_job
from swarm.client.swarm import Swarm
from swarm.core.capabilities import capabilities
from swarm.core.errors import InvalidOption, QuestionClosed, UnknownQuestion
from swarm.core.records import AgentView, JobView
from swarm.store.external_events import KEEP_SECONDS, MAX_KEEP_SECONDS, ExternalEvent
from swarm.store.forgetting import Forgetting
from swarm.store.questions import Question

ACTS = Table()
"""Acts on jobs, agents, questions and maps."""
Reason = Annotated[str, Field(description="Default: the caller's name.")]


class StartedJob(BaseModel):
    """A job that this order or an earlier one with the same idempotency key started."""

    job: JobView
    new: bool
    """False: an earlier order started the job."""
    warnings: list[str]
    """Entries of settings files that could not be used."""


class StartedMap(BaseModel):
    """A started map."""

    map: MapView
    warnings: list[str]
    """Entries of settings files that could not be used."""


class ForgottenJob(BaseModel):
    """A removed job; workers delete its objects soon."""

    job_id: str


class CancelledAgent(BaseModel):
    """A cancelled agent."""

    agent: AgentView
    ended: int
    """Number of agents that ended: this one and those below it."""


_IN_FOLDER: dict[str, Any] = {
    "workspace": (Annotated[Folder, Field(description="Absolute path on the workers' hosts.")], ...),
}
_IN_FOLDER_OR_REPOSITORY: dict[str, Any] = {
    "workspace": (
        Annotated[Folder | None, Field(description="Absolute path on the workers' hosts, unless repo is given.")],
        None,
    ),
}
NewJob = create_model(
    "NewJob",
    __base__=Body,
    __doc__="A job to start.",
    wait_seconds=(WaitSeconds, 0),
    **(options_of(Order, REMOTE_LEAVES_OUT) | _IN_FOLDER_OR_REPOSITORY),
)
NewMap = create_model(
    "NewMap",
    __base__=Body,
    __doc__="A map to start: a job for each line.",
    lines=(list[str | dict[str, Any]], ...),
    **(options_of(MapOrder, {*REMOTE_LEAVES_OUT, "over"}) | _IN_FOLDER),
)


@ACTS.post("/jobs", "submit", takes=NewJob, status=201, headers={"Idempotency-Key": "idempotency_key"})
def start_job(call: Invocation, wait_seconds: float, **order: Any) -> StartedJob:
    """Start a job: a tree of agents works on it on the fleet. It continues even if no client waits.

    The agents see nothing of your conversation, so put everything they must know into the prompt. The call returns the job's id at once;
    with wait_seconds, it waits until the job has ended or needs a person. Look at the job with get_job and follow it with follow_job.
    The same order sent again with its idempotency key starts no second job (HTTP returns 200).
    """
    if (key := order["idempotency_key"]) is not None:
        # Keys are separate for each caller, so a caller cannot find another one's job by guessing.
        order["idempotency_key"] = f"{call.by}/{key}"
    if order["workspace"] is None:
        order["workspace"] = "." if order["repo"] is not None else call.folder
    if order["workspace"] is None:
        raise InvalidOption("workspace", "workspace is missing")
    job = call.swarm.submit(**order)
    call.ready()
    wait_for_job(call, job.id, wait_seconds, "attention", after="0" if job.new else "")
    return StartedJob(job=job.view(), new=job.new, warnings=job.warnings)


@ACTS.post("/maps", "submit", takes=NewMap, status=201)
def start_map(call: Invocation, lines: list[str | dict[str, Any]], **order: Any) -> StartedMap:
    """Start a map: a job for each line. The same order sent twice starts two maps."""
    started = call.swarm.map(over=lines, **order)
    return StartedMap(map=started.view(), warnings=started.warnings)


@ACTS.post("/jobs/{job}/messages", "send")
def send_message(
    call: Invocation,
    job: JobId,
    text: Words,
    to: Annotated[Words, Field(description="An agent's name or id, `root`, or `*` for all live agents.")] = "root",
    reply_to: Annotated[str, Field(description="The id of the message that this answers.")] = "",
) -> Delivery:
    """Write to agents of a job as its person. They read it before their next turn; an ended agent continues with it."""
    call.ready()
    return call.swarm.job(job).deliver(to, text, reply_to=reply_to)


@ACTS.post("/jobs/{job}/review", "send")
def send_review(
    call: Invocation,
    job: JobId,
    text: Annotated[str, Field(description="A message about the comments. Default: work on all of them.")] = "",
) -> Delivery:
    """Continue a job with the unresolved review comments of its pull request. A worker reads them; they follow the message as a note."""
    call.ready()
    return call.swarm.job(job).send_review(text)


@ACTS.post("/jobs/{job}/messages/read", "send", wrap="unread")
def mark_read(
    call: Invocation, job: JobId, up_to: Annotated[str, Field(description="The id of the last message that was read.")]
) -> int:
    """Mark the messages up to this one as read, for every client. Returns the number of unread messages."""
    return call.swarm.job(job).mark_read(up_to)


@ACTS.post("/jobs/{job}/cancel", "cancel")
def cancel_job(call: Invocation, job: JobId, reason: Reason = "") -> JobView:
    """Cancel a job with all its agents, at once and for good. A job that has ended is left unchanged."""
    found = call.swarm.job(job)
    found.cancel(_reason(call, reason), by=call.by)
    return found.view()


@ACTS.post("/jobs/{job}/forget", "forget")
def forget_job(call: Invocation, job: JobId) -> ForgottenJob:
    """Remove an ended job wholly, also from the archive: records, journals, outputs, objects. Results that a map has recorded stay."""
    Forgetting(call.swarm.store.keyspace).forget(job)
    return ForgottenJob(job_id=job)


@ACTS.post("/agents/{agent}/cancel", "cancel")
def cancel_agent(call: Invocation, agent: AgentId, reason: Reason = "") -> CancelledAgent:
    """Cancel an agent and everything below it, never above. An agent that has ended is left unchanged."""
    ends = _count_living(call.swarm, agent)
    call.swarm.cancel(agent, _reason(call, reason), by=call.by)
    return CancelledAgent(agent=call.swarm.agent(agent), ended=ends)


def _count_living(swarm: Swarm, agent_id: str) -> int:
    below, living = {agent_id}, 0
    # Parents come before their children.
    for agent in swarm.store.agents.of(swarm.store.agents.get(agent_id).job_id, answers=False):
        if agent.parent_id in below:
            below.add(agent.id)
        living += agent.id in below and not agent.ended
    return living


def _reason(call: Invocation, given: str) -> str:
    return given.strip() or f"cancelled by {call.by}"


@ACTS.post("/agents/{agent}/compact", "send")
def compact_agent(
    call: Invocation,
    agent: AgentId,
    focus: Annotated[str, Field(description="The summary's main subject.")] = "",
) -> AgentView:
    """Have an agent's conversation summarized before its next turn. This wakes no agent, and the journal keeps everything."""
    call.swarm.compact(agent, focus)
    return call.swarm.agent(agent)


@ACTS.post("/agents/{agent}/model", "send")
def choose_model(
    call: Invocation,
    agent: AgentId,
    model: Annotated[Words, Field(description="An alias, a full id, or VENDOR:MODEL.")],
) -> AgentView:
    """Have an agent ask another model from its next request on. The conversation stays; one that waits for its model continues at once."""
    call.swarm.choose_model(agent, model, by=call.by)
    return call.swarm.agent(agent)


@ACTS.post("/questions/{question}/answer", "answer")
def answer_question(
    call: Invocation,
    question: Annotated[str, Field(description="The question's id.")],
    answer: Annotated[Words, Field(description="`allow` or `deny` for a permission or a plan, else free text.")],
    reason: Annotated[str, Field(description="Shown to the agent.")] = "",
    mode: Annotated[str, Field(description="The permission mode for an approved plan.")] = "",
    always: Annotated[
        bool, Field(description="Also allow calls plainly of the same kind, for the rest of the job.")
    ] = False,
) -> Question:
    """Answer a question; its agent continues. Allowing a command runs it: a model asks the person first."""
    call.ready()
    try:
        call.swarm.answer(question, answer, reason=reason, mode=mode, always=always, by=call.by)
    except QuestionClosed as error:
        # Name the earlier answer and its author.
        raise explain(error, question=_find_question(call.swarm, question).model_dump(mode="json")) from error
    return _find_question(call.swarm, question)


def _find_question(swarm: Swarm, question_id: str) -> Question:
    found = swarm.questions.find(question_id)
    if found is None:
        raise UnknownQuestion(question_id)
    return found


@ACTS.post("/events", "send", status=201)
def tell_event(
    call: Invocation,
    key: Annotated[str, Field(description="The key that agents wait for; its first event stays.")],
    data: str = "",
    keep_seconds: Annotated[
        float, Field(gt=0, le=MAX_KEEP_SECONDS, description="How long the event is kept for later waiters.")
    ] = KEEP_SECONDS,
) -> ExternalEvent:
    """Report an external event in the caller's name: agents that wait for it continue. A second one changes nothing (HTTP returns 200)."""
    return call.swarm.event(key, data, keep_seconds=keep_seconds, by=call.by)


@ACTS.post("/maps/{map}/retry", "submit")
def retry_map(call: Invocation, map: MapId) -> MapView:
    """Try all failed lines again."""
    found = call.swarm.find_map(map)
    found.retry()
    return found.view()


@ACTS.post("/maps/{map}/cancel", "cancel")
def cancel_map(call: Invocation, map: MapId, reason: Reason = "") -> MapView:
    """Start no further lines and cancel the running ones. Finished results stay."""
    found = call.swarm.find_map(map)
    found.cancel(_reason(call, reason), by=call.by)
    return found.view()


for _acts in filter(None, (one.acts for one in capabilities().values())):
    import_module(_acts)
