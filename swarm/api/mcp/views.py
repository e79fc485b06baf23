"""Results for models: short enough to read each time, and complete enough to act on. `shown_type` and `show` go by the type."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, get_args

from pydantic import BaseModel, create_model

from swarm.client.acts import CancelledAgent, StartedJob
from swarm.client.swarm import Swarm
from swarm.core.records import AgentView, JobView
from swarm.store.questions import Question

MAX_ANSWER = 40_000
"""Characters of an answer; all of it is in the transcript of the job's first agent."""
MAX_AGENTS = 25
_MAX_DETAIL = 4_000


class AgentLine(BaseModel):
    """One agent of a job."""

    id: str
    label: str
    state: str
    activity: str = ""
    """The agent's current activity, or why no worker can run it."""
    parent: str = ""


class QuestionView(BaseModel):
    """A question that waits for a person's answer."""

    id: str
    job: str
    agent: str
    kind: str
    title: str
    detail: str
    answers: list[str]
    """The possible answers; empty: any text."""
    expires_in_seconds: int


class JobState(BaseModel):
    """A job as it stands."""

    id: str
    title: str
    state: str
    ended: bool
    answer: str = ""
    """The job's result, once it has ended."""
    data: Any = None
    """The answer as data, if a schema was given."""
    reason: str = ""
    questions: list[QuestionView] = []
    """Open questions; their agents wait for the answers."""
    unread_messages: int = 0
    """Unread messages from the job's agents to the person."""
    at_work: list[AgentLine] = []
    """The first of the agents that have not ended."""
    agents: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    note: str = ""
    """Why the job does not continue, if known."""
    warnings: list[str] = []


class EndedLine(BaseModel):
    """An agent that was cancelled."""

    agent: AgentLine
    ended: int
    """Number of agents that the cancellation ended."""


def shown_type(kind: type[BaseModel]) -> type[BaseModel]:
    """Return the type of an operation's result for models."""
    if kind in _SHOWN:
        return _SHOWN[kind][0]
    lists = {name: get_args(field.annotation) for name, field in kind.model_fields.items()}
    fields: dict[str, Any] = {
        name: (list[_LISTED[item[0]][0]], ...)  # type: ignore[misc]
        for name, item in lists.items()
        if item and item[0] in _LISTED
    }
    return create_model(kind.__name__, __base__=kind, **fields) if fields else kind


def show(swarm: Swarm, found: Any) -> Any:
    """Convert an operation's result for models."""
    if type(found) in _SHOWN:
        return _SHOWN[type(found)][1](swarm, found)
    return {name: _show_list(each) for name, each in dict(found).items()}


def _show_list(found: Any) -> Any:
    if not isinstance(found, list):
        return found
    return [_LISTED[type(one)][1](one) if type(one) in _LISTED else one for one in found]


def _show_job(swarm: Swarm, view: JobView, warnings: Sequence[str] = ()) -> JobState:
    agents = swarm.job(view.id).agents()
    at_work = [agent for agent in agents if agent.at_work]
    return JobState(
        **_outline(view),
        answer=cut(view.text, MAX_ANSWER),
        data=view.data,
        reason=view.reason,
        questions=[_show_question(question) for question in swarm.questions.open(view.id)],
        at_work=[_show_agent(agent) for agent in at_work[:MAX_AGENTS]],
        note=next((agent.unserved for agent in agents if agent.unserved), ""),
        warnings=list(warnings),
    )


def _outline(view: JobView) -> dict[str, Any]:
    return {
        **{"id": view.id, "title": view.title, "state": view.state, "ended": view.ended},
        **{"unread_messages": view.unread, "agents": view.agents, "tokens": view.usage.total_tokens},
        "cost_usd": None if view.cost_usd is None else round(view.cost_usd, 6),
    }


def _show_agent(agent: AgentView) -> AgentLine:
    doing = agent.unserved or agent.summary or agent.activity
    return AgentLine(
        id=agent.id, label=agent.label, state=agent.state, activity=doing[:300], parent=agent.parent_id or ""
    )


def _show_question(question: Question) -> QuestionView:
    answers = question.options if question.kind == "question" else ["allow", "deny"]
    return QuestionView(
        **{"id": question.id, "job": question.job_id, "agent": question.label, "kind": question.kind},
        title=question.title,
        detail=cut(question.detail, _MAX_DETAIL),
        answers=[] if question.kind == "event" else answers,
        expires_in_seconds=max(0, int(question.expires_at - time.time())),
    )


def cut(text: str, most: int) -> str:
    """Return the text, or its beginning and the number of characters left out."""
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most:,} characters more]"


_SHOWN: dict[type[BaseModel], tuple[type[BaseModel], Callable[[Swarm, Any], BaseModel]]] = {
    JobView: (JobState, _show_job),
    StartedJob: (JobState, lambda swarm, one: _show_job(swarm, one.job, one.warnings)),
    CancelledAgent: (EndedLine, lambda swarm, one: EndedLine(agent=_show_agent(one.agent), ended=one.ended)),
    Question: (QuestionView, lambda swarm, one: _show_question(one)),
}
"""Result type → the type shown to models, and the conversion."""
_LISTED: dict[type[BaseModel], tuple[type[BaseModel], Callable[[Any], BaseModel]]] = {
    JobView: (JobState, lambda one: JobState(**_outline(one))),
    AgentView: (AgentLine, _show_agent),
    Question: (QuestionView, _show_question),
}
"""List item type → the type shown to models, and the conversion: jobs have no answers and agents there."""
