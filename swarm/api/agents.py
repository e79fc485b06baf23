"""Endpoints about single agents, messages and questions."""

from __future__ import annotations

from itertools import islice
from typing import Any

from pydantic import BaseModel, Field

from swarm.api.endpoint import Body, Call, Endpoint, Returned
from swarm.api.jobs import Reason
from swarm.client.correspondence import Delivery, Mailbox
from swarm.core.errors import UnknownQuestion
from swarm.core.records import AgentView
from swarm.mailbox import Message
from swarm.store.happenings import KEEP_SECONDS, MAX_KEEP_SECONDS, Happening
from swarm.store.questions import Question


class TranscriptQuery(Body):
    """Which part of a journal is returned."""

    after: int = Field(default=0, ge=0)
    """The number of the last entry that is known already."""
    count: int = Field(default=200, ge=1, le=1000)


class NumberedEntry(BaseModel):
    """An entry of a journal and its place in it, from 1 on."""

    number: int
    entry: Any


class Transcript(BaseModel):
    """A part of an agent's journal: everything it has lived, oldest first."""

    entries: list[NumberedEntry]
    more: bool
    """There are later entries."""


class NewMessage(Body):
    """A message from the person to agents of a job."""

    text: str = Field(min_length=1)
    to: str = "root"
    """A name, an id, `root`, or `*` for all that live."""
    reply_to: str = ""


class Inbox(BaseModel):
    """Messages of a job's agents to its person, oldest first."""

    messages: list[Message]
    read_up_to: str


class InboxQuery(Body):
    """Which messages are returned."""

    after: str = "0-0"
    """The id of the last message that is known already."""


class ReadUpTo(Body):
    """How far the person has read."""

    up_to: str


class Unread(BaseModel):
    """What is left to read."""

    unread: int


class Focus(Body):
    """What a summary must hold above all."""

    focus: str = ""


class QuestionsQuery(Body):
    """Which questions are returned."""

    job: str | None = None


class OpenQuestions(BaseModel):
    """Questions that wait for an answer, oldest first."""

    questions: list[Question]


class NewAnswer(Body):
    """An answer to a question."""

    answer: str = Field(min_length=1)
    """`allow` or `deny` for a permission or a plan, else words."""
    reason: str = ""
    mode: str = ""
    """The permission mode that an approved plan is carried out in."""
    always: bool = False
    """Also allow what is plainly of the same kind, for the rest of the job."""


class NewEvent(Body):
    """Something that has happened outside."""

    key: str
    """As the agents that wait for it know it; the first event of a key stays."""
    data: str = ""
    keep_seconds: float = Field(default=KEEP_SECONDS, gt=0, le=MAX_KEEP_SECONDS)
    """How long it is kept for those who wait later."""


def get_agent(call: Call) -> AgentView:
    """One agent as it stands."""
    return call.swarm.agent(call.path["agent"])


def get_transcript(call: Call) -> Transcript:
    """What an agent has lived, part by part: ask again with the last number as `after`."""
    wanted: TranscriptQuery = call.query
    agent_id, store = call.path["agent"], call.swarm.store
    store.agents.get(agent_id)  # one that does not exist has an empty journal
    part = list(islice(store.journals.read(agent_id, wanted.after), wanted.count + 1))
    found = [
        NumberedEntry(number=number, entry=entry.model_dump(mode="json", exclude={"folded"}))
        for number, entry in enumerate(part[: wanted.count], wanted.after + 1)
    ]
    return Transcript(entries=found, more=len(part) > wanted.count)


def get_mailbox(call: Call) -> Mailbox:
    """The messages to an agent, and how far it has read them."""
    return call.swarm.mailbox(call.path["agent"])


def cancel_agent(call: Call) -> AgentView:
    """Cancel an agent and everything below it, never above; one that has ended stays as it is."""
    call.swarm.cancel(call.path["agent"], call.body.reason, by=call.key.name)
    return call.swarm.agent(call.path["agent"])


def compact_agent(call: Call) -> AgentView:
    """Have an agent's conversation summarized before its next turn; nobody is woken for it, and the journal keeps everything."""
    call.swarm.compact(call.path["agent"], call.body.focus)
    return call.swarm.agent(call.path["agent"])


def send_message(call: Call) -> Delivery:
    """Write to agents of a job, as its person; an agent that has ended goes on with it."""
    wanted: NewMessage = call.body
    return call.swarm.job(call.path["job"]).deliver(wanted.to, wanted.text, reply_to=wanted.reply_to)


def get_inbox(call: Call) -> Inbox:
    """What a job's agents wrote to its person."""
    job = call.swarm.job(call.path["job"])
    return Inbox(messages=job.inbox(call.query.after), read_up_to=job.read_up_to())


def mark_read(call: Call) -> Unread:
    """Mark the messages up to one as read, for every client."""
    return Unread(unread=call.swarm.job(call.path["job"]).mark_read(call.body.up_to))


def list_questions(call: Call) -> OpenQuestions:
    """The questions that wait for an answer, of one job or of all."""
    return OpenQuestions(questions=call.swarm.questions.open(call.query.job))


def answer_question(call: Call) -> Question:
    """Answer a question; its agent goes on. To allow a command is to run it: the key needs the scope `answer`."""
    given: NewAnswer = call.body
    question_id = call.path["question"]
    call.swarm.answer(
        question_id, given.answer, reason=given.reason, mode=given.mode, always=given.always, by=call.key.name
    )
    question = call.swarm.questions.find(question_id)
    if question is None:
        raise UnknownQuestion(question_id)
    return question


def tell_event(call: Call) -> Returned:
    """Tell an event from outside, in the name of the key: agents that wait for it go on. A second one changes nothing (and returns 200)."""
    given: NewEvent = call.body
    told = call.swarm.event(given.key, given.data, keep_seconds=given.keep_seconds, by=call.key.name)
    return Returned(told, 201 if told.new else 200)


AGENT_ENDPOINTS = [
    Endpoint("POST", "/v1/events", "send", tell_event, Happening, body=NewEvent, status=201),
    Endpoint("POST", "/v1/jobs/{job}/messages", "send", send_message, Delivery, body=NewMessage),
    Endpoint("GET", "/v1/jobs/{job}/messages", "read", get_inbox, Inbox, query=InboxQuery),
    Endpoint("POST", "/v1/jobs/{job}/messages/read", "send", mark_read, Unread, body=ReadUpTo),
    Endpoint("GET", "/v1/agents/{agent}", "read", get_agent, AgentView),
    Endpoint("GET", "/v1/agents/{agent}/transcript", "read", get_transcript, Transcript, query=TranscriptQuery),
    Endpoint("GET", "/v1/agents/{agent}/mailbox", "read", get_mailbox, Mailbox),
    Endpoint("POST", "/v1/agents/{agent}/cancel", "cancel", cancel_agent, AgentView, body=Reason),
    Endpoint("POST", "/v1/agents/{agent}/compact", "send", compact_agent, AgentView, body=Focus),
    Endpoint("GET", "/v1/questions", "read", list_questions, OpenQuestions, query=QuestionsQuery),
    Endpoint("POST", "/v1/questions/{question}/answer", "answer", answer_question, Question, body=NewAnswer),
]
