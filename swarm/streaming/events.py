"""The events of a stream, as `swarm run --json --stream` prints them and `swarm.stream` yields them.

The schema is stable: within version 1 fields and types are only added, so readers ignore unknown ones. `docs/reference/stream.md`
is generated from this module.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from swarm.core.records import OpenState, State
from swarm.core.usage import Usage


class _StreamedEvent(BaseModel):
    """Fields of every event."""

    model_config = ConfigDict(frozen=True)

    v: Literal[1] = 1
    seq: int
    """The event's number in its job: equal whenever the job is streamed again. Several events may share one."""
    at: float
    """Unix seconds."""
    job_id: str
    agent_id: str
    label: str
    """The agent's readable name: its type and its task."""


class JobStarted(_StreamedEvent):
    """The job is on the queue; the agent is its root."""

    type: Literal["job_started"] = "job_started"
    title: str
    workspace: str
    rehearsed: bool
    """The model's replies come from a script and cost nothing."""


class AgentSpawned(_StreamedEvent):
    """An agent was started by another one."""

    type: Literal["agent_spawned"] = "agent_spawned"
    parent_id: str
    definition: str
    model: str
    depth: int
    phase: str = ""
    """The phase of the workflow that started it."""


class AgentState(_StreamedEvent):
    """An agent has gone from one state to another, without ending."""

    type: Literal["agent_state"] = "agent_state"
    state: OpenState
    why: str
    """`running`, `parked`, `woken`, `handed_over`, `rescued` or `resumed`."""
    waits_for: str
    """A parked agent's condition in a few words; empty if unknown."""


class Prompt(_StreamedEvent):
    """Text was put into an agent's conversation: its task, or a note of the runtime."""

    type: Literal["prompt"] = "prompt"
    purpose: str
    text: str


class ToolCall(BaseModel):
    """A call that a reply makes."""

    model_config = ConfigDict(frozen=True)

    tool_use_id: str
    name: str
    input: Any


class Reply(_StreamedEvent):
    """The model's whole reply."""

    type: Literal["reply"] = "reply"
    text: str
    thinking: str
    tool_calls: list[ToolCall]
    stop_reason: str
    model: str
    usage: Usage
    cost_usd: float | None


class ProgramCalls(_StreamedEvent):
    """A workflow's program continued and made calls."""

    type: Literal["program_calls"] = "program_calls"
    tool_calls: list[ToolCall]


class ToolResult(_StreamedEvent):
    """A call has its result."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    name: str
    text: str
    is_error: bool
    duration_seconds: float


class ModelFailed(_StreamedEvent):
    """A request to the model failed; it is repeated unless the failure is permanent."""

    type: Literal["model_failed"] = "model_failed"
    error: str
    error_kind: str
    permanent: bool


class MessageSent(_StreamedEvent):
    """The agent wrote to another one or to the person; or the person wrote to the agent `agent_id`."""

    type: Literal["message"] = "message"
    to: str
    """An agent's id, or `user`."""
    sender: str
    kind: str
    message_id: str
    body: str


class QuestionAsked(_StreamedEvent):
    """The agent asks and waits for the answer."""

    type: Literal["question"] = "question"
    question_id: str
    kind: Literal["permission", "plan", "question", "event"]
    """`event`: the agent waits for an external event, whose key is the title."""
    title: str
    detail: str
    options: list[str]
    """The answers that a question in words offers."""
    expires_at: float


class QuestionClosed(_StreamedEvent):
    """A question was answered, expired, or is void because its agent ended."""

    type: Literal["question_closed"] = "question_closed"
    question_id: str
    state: Literal["answered", "expired", "void"]
    answer: str
    by: str


class Notice(_StreamedEvent):
    """Another fact for people: a denied call, a verdict, a worker that bounds the agent, a changed page."""

    type: Literal["notice"] = "notice"
    kind: str
    """The event's name: `denied`, `hooked`, `bounded`, `held`, `server` (an MCP server did not start), `note` (a workflow's), `verdict`,
    `switched` (the agent asks another model), `lacking` (contents of a repository are not fetched), `pushed`, `pull_request`, `compacted`,
    `board`, `pad`, `team` or one that newer versions have."""
    about: dict[str, str]


class AgentEnded(_StreamedEvent):
    """An agent and all of its descendants have ended."""

    type: Literal["agent_ended"] = "agent_ended"
    state: State
    text: str
    """The agent's answer."""
    reason: str
    stopped_at: Literal["", "turns", "tokens", "budget", "time", "context", "space"]
    turns: int
    tools: int
    usage: Usage
    cost_usd: float | None
    estimated_usd: float = 0.0
    """The part of the cost that is an estimate, of replies that were cut or lost."""
    unpriced_tokens: int = 0


class JobEnded(_StreamedEvent):
    """The job has ended; the stream ends with it, unless a message to its root follows at once."""

    type: Literal["job_ended"] = "job_ended"
    state: State
    result: str
    """The root's answer."""
    data: Any = None
    """The answer as data, if a schema was given."""
    reason: str
    stopped_at: Literal["", "turns", "tokens", "budget", "time", "context", "space"]
    agents: int
    turns: int
    usage: Usage
    cost_usd: float | None
    estimated_usd: float = 0.0
    """The part of the cost that is an estimate, of replies that were cut or lost."""
    unpriced_tokens: int = 0
    rehearsed: bool


StreamEvent = Annotated[
    JobStarted
    | AgentSpawned
    | AgentState
    | Prompt
    | Reply
    | ProgramCalls
    | ToolResult
    | ModelFailed
    | MessageSent
    | QuestionAsked
    | QuestionClosed
    | Notice
    | AgentEnded
    | JobEnded,
    Field(discriminator="type"),
]

STREAM_EVENT: TypeAdapter[StreamEvent] = TypeAdapter(StreamEvent)
"""Reads a line of the stream again: `STREAM_EVENT.validate_json(line)`."""
