"""Acts: what remote callers do to jobs, agents and questions. Each is a row of `ACTS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from swarm.client.correspondence import Delivery
from swarm.client.failures import explain
from swarm.client.operations import Body, Invocation, OfAgent, OfJob, Operation
from swarm.client.swarm import Swarm
from swarm.core.errors import QuestionClosed, UnknownQuestion
from swarm.core.records import AgentView, JobView
from swarm.store.happenings import KEEP_SECONDS, MAX_KEEP_SECONDS, Happening
from swarm.store.questions import Question


class StartedJob(BaseModel):
    """A job that was started, now or by an earlier order with the same idempotency key."""

    job: JobView
    new: bool
    """This order started it."""
    warnings: list[str]
    """What settings files held that could not be used."""


class CancelledAgent(BaseModel):
    """An agent that was cancelled."""

    agent: AgentView
    ended: int
    """How many agents that ended: it, and those below it."""


class Unread(BaseModel):
    """What is left to read."""

    unread: int


class NewMessage(OfJob):
    """A message from the person to agents of a job."""

    text: str = Field(min_length=1)
    to: str = Field(default="root", min_length=1)
    """An agent's name or id, `root`, or `*` for all that live."""
    reply_to: str = ""
    """The id of the message that this answers."""


class ReadUpTo(OfJob):
    """How far the person has read."""

    up_to: str
    """The id of the last message that was read."""


class NewAnswer(Body):
    """An answer to a question."""

    question: str
    """The question's id."""
    answer: str = Field(min_length=1)
    """`allow` or `deny` for a permission or a plan, else words."""
    reason: str = ""
    """Told to the agent."""
    mode: str = ""
    """The permission mode that an approved plan is carried out in."""
    always: bool = False
    """Also allow what is plainly of the same kind, for the rest of the job."""


class Reason(Body):
    """The base of the input of a cancellation."""

    reason: str = ""
    """Default: who cancels."""


class EndJob(OfJob, Reason):
    """A job to cancel."""


class EndAgent(OfAgent, Reason):
    """An agent to cancel."""


class Focus(OfAgent):
    """A conversation to summarize."""

    focus: str = ""
    """What the summary must hold above all."""


class NewEvent(Body):
    """Something that has happened outside."""

    key: str
    """As the agents that wait for it know it; the first event of a key stays."""
    data: str = ""
    keep_seconds: float = Field(default=KEEP_SECONDS, gt=0, le=MAX_KEEP_SECONDS)
    """How long it is kept for those who wait later."""


def start_job(call: Invocation) -> StartedJob:
    """Start a job. With an idempotency key, an order that is sent again starts no second one (HTTP returns 200)."""
    return place_order(call, dict(call.given))


def place_order(call: Invocation, order: Mapping[str, Any]) -> StartedJob:
    """Start a job by the parameters of `Swarm.submit`, and raise what it does."""
    key = order.get("idempotency_key")
    # Each caller has idempotency keys of its own: nobody finds the job of somebody else by guessing.
    own_key = None if key is None else f"{call.by}/{key}"
    job = call.swarm.submit(**{**order, "idempotency_key": own_key})
    return StartedJob(job=job.view(), new=job.new, warnings=job.warnings)


def send_message(call: Invocation) -> Delivery:
    """Write to agents of a job, as its person; they read it before their next turn. One that has ended goes on with it."""
    given: NewMessage = call.given
    return call.swarm.job(given.job).deliver(given.to, given.text, reply_to=given.reply_to)


def mark_read(call: Invocation) -> Unread:
    """Mark the messages up to one as read, for every client."""
    return Unread(unread=call.swarm.job(call.given.job).mark_read(call.given.up_to))


def answer_question(call: Invocation) -> Question:
    """Answer a question; its agent goes on. To allow a command is to have it run: a model asks the person first."""
    given: NewAnswer = call.given
    words = {"reason": given.reason, "mode": given.mode}
    try:
        call.swarm.answer(given.question, given.answer, **words, always=given.always, by=call.by)
    except QuestionClosed as error:
        # Who was faster, and with what.
        raise explain(error, question=_find_question(call.swarm, given.question).model_dump(mode="json")) from error
    return _find_question(call.swarm, given.question)


def _find_question(swarm: Swarm, question_id: str) -> Question:
    found = swarm.questions.find(question_id)
    if found is None:
        raise UnknownQuestion(question_id)
    return found


def cancel_job(call: Invocation) -> JobView:
    """Cancel a job with all its agents, at once and for good; one that has ended stays as it is."""
    job = call.swarm.job(call.given.job)
    job.cancel(reason_of(call), by=call.by)
    return job.view()


def cancel_agent(call: Invocation) -> CancelledAgent:
    """Cancel an agent and everything below it, never above; one that has ended stays as it is."""
    swarm, agent_id = call.swarm, call.given.agent
    ends = _count_living(swarm, swarm.store.agent(agent_id).job_id, agent_id)
    swarm.cancel(agent_id, reason_of(call), by=call.by)
    return CancelledAgent(agent=swarm.agent(agent_id), ended=ends)


def _count_living(swarm: Swarm, job_id: str, agent_id: str) -> int:
    below, living = {agent_id}, 0
    # Parents come before their children.
    for agent in swarm.store.agents_of(job_id, answers=False):
        if agent.parent_id in below:
            below.add(agent.id)
        living += agent.id in below and not agent.ended
    return living


def reason_of(call: Invocation) -> str:
    """The reason of a cancellation."""
    return call.given.reason.strip() or f"cancelled by {call.by}"


def compact_agent(call: Invocation) -> AgentView:
    """Have an agent's conversation summarized before its next turn; nobody is woken for it, and the journal keeps everything."""
    call.swarm.compact(call.given.agent, call.given.focus)
    return call.swarm.agent(call.given.agent)


def tell_event(call: Invocation) -> Happening:
    """Tell an event from outside, in the caller's name: agents that wait for it go on. A second one changes nothing (HTTP returns 200)."""
    given: NewEvent = call.given
    return call.swarm.event(given.key, given.data, keep_seconds=given.keep_seconds, by=call.by)


ACTS = (
    Operation("POST", "/jobs/{job}/messages", "send", send_message, NewMessage, Delivery),
    Operation("POST", "/jobs/{job}/messages/read", "send", mark_read, ReadUpTo, Unread),
    Operation("POST", "/jobs/{job}/cancel", "cancel", cancel_job, EndJob, JobView),
    Operation("POST", "/agents/{agent}/cancel", "cancel", cancel_agent, EndAgent, CancelledAgent),
    Operation("POST", "/agents/{agent}/compact", "send", compact_agent, Focus, AgentView),
    Operation("POST", "/questions/{question}/answer", "answer", answer_question, NewAnswer, Question),
    Operation("POST", "/events", "send", tell_event, NewEvent, Happening, status=201),
)
"""Acts on jobs, agents and questions, but for the start of a job: its input is the surface's."""
