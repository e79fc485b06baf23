"""What clients are shown of jobs: little enough for a model to read each time, and everything that it has to act on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

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
    """What it does just now, or why nobody can run it."""
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
    """What can be answered; empty: any words."""
    expires_in_seconds: int


class JobState(BaseModel):
    """A job as it stands."""

    id: str
    title: str
    state: str
    ended: bool
    answer: str = ""
    """What came of it, once it has ended."""
    data: Any = None
    """The answer as data, if a schema was given."""
    reason: str = ""
    questions: list[QuestionView] = []
    """They wait for an answer; their agents do, too."""
    unread_messages: int = 0
    """From its agents to the person."""
    at_work: list[AgentLine] = []
    """Agents that have not ended, the first of them."""
    agents: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    note: str = ""
    """Why it does not go on, where that is known."""
    warnings: list[str] = []


def show_job(swarm: Swarm, job_id: str, warnings: Sequence[str] = ()) -> JobState:
    """A job as it stands now. Raises `UnknownAgent`."""
    job = swarm.job(job_id)
    view, agents = job.view(), job.agents()
    at_work = [agent for agent in agents if agent.at_work]
    return JobState(
        **_outline(view),
        answer=cut(view.text, MAX_ANSWER),
        data=view.data,
        reason=view.reason,
        questions=[show_question(question) for question in swarm.questions.open(job_id)],
        at_work=[show_agent(agent) for agent in at_work[:MAX_AGENTS]],
        note=next((agent.unserved for agent in agents if agent.unserved), ""),
        warnings=list(warnings),
    )


def outline_job(view: JobView) -> JobState:
    """A job as a list has it: without its answer and agents."""
    return JobState(**_outline(view))


def _outline(view: JobView) -> dict[str, Any]:
    return {
        **{"id": view.id, "title": view.title, "state": view.state, "ended": view.ended},
        **{"unread_messages": view.unread, "agents": view.agents, "tokens": view.usage.total_tokens},
        "cost_usd": round(view.cost_usd, 6),
    }


def show_agent(agent: AgentView) -> AgentLine:
    """An agent as it stands."""
    doing = agent.unserved or agent.summary or agent.activity
    return AgentLine(
        id=agent.id, label=agent.label, state=agent.state, activity=doing[:300], parent=agent.parent_id or ""
    )


def show_question(question: Question) -> QuestionView:
    """An open question."""
    answers = question.options if question.kind == "question" else ["allow", "deny"]
    return QuestionView(
        **{"id": question.id, "job": question.job_id, "agent": question.label, "kind": question.kind},
        title=question.title,
        detail=cut(question.detail, _MAX_DETAIL),
        answers=[] if question.kind == "event" else answers,
        expires_in_seconds=max(0, int(question.expires_at - time.time())),
    )


def cut(text: str, most: int) -> str:
    """The text, or its beginning and how much of it is left out."""
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most:,} characters more]"
