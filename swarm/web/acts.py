"""What can be done from the page: start a job, write, answer, cancel. Functions of a swarm that know nothing of HTTP.

Looking never acts: nothing else in this package changes anything.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from swarm.client.order import REMOTE_LEAVES_OUT, Order, options_of
from swarm.client.swarm import Swarm
from swarm.core.errors import QuestionClosed, UnknownQuestion
from swarm.store.questions import Question
from swarm.web.failures import not_valid
from swarm.web.reads import show_question


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


_IN_FOLDER: dict[str, Any] = {"workspace": (Annotated[str, Field(min_length=1)], ...)}
Start = create_model("Start", __base__=_Body, **(options_of(Order, REMOTE_LEAVES_OUT) | _IN_FOLDER))


class Send(_Body):
    """A message to agents of a job."""

    to: str = Field(min_length=1)
    text: str = Field(min_length=1)
    reply_to: str = ""


class Answer(_Body):
    """The answer to a question."""

    answer: str = Field(min_length=1)
    reason: str = ""
    mode: str = ""
    always: bool = False


class Cancel(_Body):
    """Why an agent is cancelled."""

    reason: str = ""


class Read(_Body):
    """How far the person has read."""

    up_to: str


BodyT = TypeVar("BodyT", bound=BaseModel)


def read_body(kind: type[BodyT], given: object) -> BodyT:
    """What somebody sent, checked. Raises `BadRequest`, which names the field."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise not_valid(error) from None


def start_job(swarm: Swarm, body: BaseModel) -> dict[str, Any]:
    """Start a job. Raises what `Swarm.submit` does."""
    job = swarm.submit(**body.model_dump(exclude_unset=True))
    return {"job_id": job.id, "root_id": job.view().root_id, "warnings": job.warnings}


def send_message(swarm: Swarm, job_id: str, body: Send) -> dict[str, Any]:
    """Write to agents as the job's person. Raises `UnknownAgent`, `MessageRefused`."""
    delivery = swarm.job(job_id).deliver(body.to, body.text, reply_to=body.reply_to)
    return delivery.model_dump(mode="json")


def answer_question(swarm: Swarm, question_id: str, body: Answer, *, by: str) -> dict[str, Any]:
    """Answer a question. Raises `UnknownQuestion`, `QuestionClosed`."""
    swarm.answer(question_id, body.answer, reason=body.reason, mode=body.mode, always=body.always, by=by)
    return {"question": _question(swarm, question_id)}


def describe_closed(swarm: Swarm, error: QuestionClosed) -> dict[str, Any]:
    """How a question stands that somebody was too late for."""
    return {"question": _question(swarm, error.question_id)}


def cancel_agent(swarm: Swarm, agent_id: str, body: Cancel, *, by: str) -> dict[str, Any]:
    """Cancel an agent and all below it; returns how many that ends. Raises `UnknownAgent`."""
    record = swarm.store.agents.get(agent_id)
    ends = _count_living(swarm, record.job_id, agent_id)
    swarm.cancel(agent_id, body.reason.strip() or f"cancelled by {by}", by=by)
    return {"ended": ends}


def mark_read(swarm: Swarm, job_id: str, body: Read) -> dict[str, Any]:
    """The job's person has read so far. Raises `UnknownAgent`, `BadMessageId`."""
    return {"unread": swarm.job(job_id).mark_read(body.up_to)}


def _question(swarm: Swarm, question_id: str) -> dict[str, Any]:
    found: Question | None = swarm.questions.find(question_id)
    if found is None:
        raise UnknownQuestion(question_id)
    return show_question(found)


def _count_living(swarm: Swarm, job_id: str, agent_id: str) -> int:
    below, living = {agent_id}, 0
    # Parents come before their children.
    for agent in swarm.store.agents.of(job_id, answers=False):
        if agent.parent_id in below:
            below.add(agent.id)
        living += agent.id in below and not agent.ended
    return living
