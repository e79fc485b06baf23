"""What people see of jobs, agents and events: records of the store, read into values that do not change."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm.agent.spec import TERMINAL_STATES, Limits, State
from swarm.models import Usage
from swarm.records import NANO, AgentRecord, Counters, JobRecord


class AgentView(BaseModel):
    """One agent as it stands. Times are Unix seconds by the server's clock; `subtree_*` include the agent itself."""

    model_config = ConfigDict(frozen=True)

    id: str
    job_id: str
    parent_id: str | None
    depth: int
    label: str
    definition: str
    name: str | None = None
    """Its name in the job, by which it can be written to."""
    state: State
    idle: bool = False
    """It is a teammate that has nothing to do: parked until a message or a task comes."""
    unread: int = 0
    """Messages in its mailbox that it has not taken in."""
    question: str | None = None
    """The question whose answer it waits for."""
    activity: str
    turns: int
    tools: int
    usage: Usage
    cost_usd: float
    subtree_tokens: int
    subtree_cost_usd: float
    created_at: float
    started_at: float | None
    ended_at: float | None
    worker: str | None
    deaths: int
    text: str
    reason: str


class JobView(BaseModel):
    """One job as it stands; `usage`, `cost_usd`, `turns` and `tools` are sums over the whole tree."""

    model_config = ConfigDict(frozen=True)

    id: str
    root_id: str
    title: str
    state: State
    text: str
    """The root's answer; empty until the job ends."""
    reason: str
    """Why it ended as it did, when it did not simply complete."""
    data: Any = None
    """The answer as data, if a schema was given."""
    workspace: str
    limits: Limits
    agents: int
    turns: int
    tools: int
    usage: Usage
    cost_usd: float
    created_at: float
    ended_at: float | None
    unread: int = 0
    """Messages to the person that nobody has marked as read."""

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self.state in TERMINAL_STATES


class Event(BaseModel):
    """One lifecycle event of a job.

    `kind` is one of `job_started, spawned, running, progress, parked, woken, handed_over, rescued, ended, resumed, job_ended, team,
    denied, bounded`;
    `board` and `pad`: what they share changed, as the field `change` says, in the `task` or the `page`; or
    `message`: its agent wrote to the one in the field `to` (`user` is the person); `id` is the message's, `sort` its kind; or
    `question`, `answered`: its agent asked something, and the question (its id is in the field `question`) is closed.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    """Position in the job's event stream: pass it to `follow(after=…)` to go on from here."""
    at: float
    kind: str
    agent_id: str
    fields: dict[str, str]


def _usage(sums: Counters) -> Usage:
    return Usage(
        input_tokens=sums.input,
        output_tokens=sums.output,
        cache_creation_input_tokens=sums.cache_write,
        cache_read_input_tokens=sums.cache_read,
    )


def job_view(record: JobRecord) -> JobView:
    """A job's record as people see it."""
    return JobView(
        id=record.id,
        root_id=record.root_id,
        title=record.title,
        state=record.state,
        text=record.text,
        reason=record.reason,
        data=json.loads(record.data) if record.data else None,
        workspace=record.workspace,
        limits=Limits.model_validate_json(record.limits),
        agents=record.agents,
        turns=record.sums.turns,
        tools=record.sums.tools,
        usage=_usage(record.sums),
        cost_usd=record.sums.cost / NANO,
        created_at=record.created_at,
        ended_at=record.ended_at,
        unread=record.unread,
    )


def agent_view(record: AgentRecord) -> AgentView:
    """An agent's record as people see it."""
    own, below = record.own, record.below
    return AgentView(
        id=record.id,
        job_id=record.job_id,
        parent_id=record.parent_id,
        depth=record.depth,
        label=record.label,
        definition=record.definition,
        name=record.name,
        state=record.state,
        idle=record.idle,
        unread=record.unread,
        question=record.question,
        activity=record.activity,
        turns=own.turns,
        tools=own.tools,
        usage=_usage(own),
        cost_usd=own.cost / NANO,
        subtree_tokens=own.tokens + below.tokens,
        subtree_cost_usd=(own.cost + below.cost) / NANO,
        created_at=record.created_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        worker=record.worker,
        deaths=record.deaths,
        text=record.text,
        reason=record.reason,
    )
