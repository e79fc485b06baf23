"""What people see of jobs, agents and events: records of the store, read into values that do not change."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm.agent.spec import TERMINAL_STATES, Limits, State
from swarm.models import Usage
from swarm.store.values import NANO


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
    denied`;
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


def _usage(record: dict[str, str], prefix: str = "") -> Usage:
    return Usage(
        input_tokens=int(record.get(prefix + "input", 0)),
        output_tokens=int(record.get(prefix + "output", 0)),
        cache_creation_input_tokens=int(record.get(prefix + "cache_write", 0)),
        cache_read_input_tokens=int(record.get(prefix + "cache_read", 0)),
    )


def _time(record: dict[str, str], name: str) -> float | None:
    return float(record[name]) if record.get(name) else None


def job_view(job_id: str, record: dict[str, str]) -> JobView:
    """A job's record as people see it."""
    return JobView(
        id=job_id,
        root_id=record["root"],
        title=record.get("title", ""),
        state=record["state"],
        text=record.get("text", ""),
        reason=record.get("reason", ""),
        data=json.loads(record["data"]) if record.get("data") else None,
        workspace=record.get("workspace", ""),
        limits=Limits.model_validate_json(record["limits"]),
        agents=int(record.get("agents", 0)),
        turns=int(record.get("turns", 0)),
        tools=int(record.get("tools", 0)),
        usage=_usage(record),
        cost_usd=int(record.get("cost", 0)) / NANO,
        created_at=float(record["created"]),
        ended_at=_time(record, "ended"),
        unread=int(record.get("unread", 0)),
    )


def agent_view(agent_id: str, record: dict[str, str]) -> AgentView:
    """An agent's record as people see it."""
    usage, cost = _usage(record), int(record.get("cost", 0))
    return AgentView(
        id=agent_id,
        job_id=record["job"],
        parent_id=record.get("parent") or None,
        depth=int(record["depth"]),
        label=record["label"],
        definition=record["definition"],
        name=record.get("name") or None,
        state=record["state"],
        idle=record.get("idle") == "1",
        unread=int(record.get("unread", 0)),
        question=record.get("wait_question") or None,
        activity=record.get("activity", ""),
        turns=int(record.get("turns", 0)),
        tools=int(record.get("tools", 0)),
        usage=usage,
        cost_usd=cost / NANO,
        subtree_tokens=usage.total_tokens + _usage(record, "below_").total_tokens,
        subtree_cost_usd=(cost + int(record.get("below_cost", 0))) / NANO,
        created_at=float(record["created"]),
        started_at=_time(record, "started"),
        ended_at=_time(record, "ended"),
        worker=record.get("worker"),
        deaths=int(record.get("deaths", 0)),
        text=record.get("text", ""),
        reason=record.get("reason", ""),
    )
