"""Ids: short, sortable by eye, and derived from their cause where a repeat must hit the same thing."""

from __future__ import annotations

import hashlib
import secrets


def new_job_id() -> str:
    """A fresh job id, `job-` and 16 hex digits."""
    return "job-" + secrets.token_hex(8)


def job_id_for(idempotency_key: str) -> str:
    """The id of the job that is submitted with this key, however often."""
    return "job-" + _digest("job", idempotency_key)


def new_map_id() -> str:
    """A fresh id of a map, `map-` and 16 hex digits."""
    return "map-" + secrets.token_hex(8)


def line_job_id(map_id: str, number: int, attempt: int) -> str:
    """The id of the job that an attempt at a line of a map is; derived, so that the same attempt is one job."""
    return "job-" + _digest("map", map_id, str(number), str(attempt))


def root_agent_id(job_id: str) -> str:
    """The id of a job's root agent: derived, so that submitting a job twice makes one root."""
    return _derived("root", job_id)


def child_agent_id(parent_id: str, tool_use_id: str) -> str:
    """The id of the agent that `parent_id` spawned with the call `tool_use_id`.

    Derived from its cause, so a parent that crashes and spawns again spawns the same child.
    """
    return _derived("child", parent_id, tool_use_id)


def request_id(agent_id: str, tool_use_id: str) -> str:
    """The id of the request that an agent opened with a call; derived, as its children's ids are."""
    return "request-" + _digest("request", agent_id, tool_use_id)


def callback_id(job_id: str, place: int) -> str:
    """The id of a task that is published when a job ends: of the first, or of one that follows it."""
    return f"sequel-{_digest('callback', job_id, str(place))}"


def question_id(agent_id: str, tool_use_id: str) -> str:
    """The id of the question about a call of an agent."""
    return "question-" + _digest("question", agent_id, tool_use_id)


def _derived(*causes: str) -> str:
    return "agent-" + _digest(*causes)


def _digest(*causes: str) -> str:
    return hashlib.sha256("\0".join(causes).encode()).hexdigest()[:16]


# -- of traces, as W3C has them: derived, too, so a parent's is known before it has ended -------------------------------


def trace_id(job_id: str) -> str:
    """The id of the trace that a job is: 32 hex digits."""
    return hashlib.sha256(f"trace\0{job_id}".encode()).hexdigest()[:32]


def span_id(*causes: str) -> str:
    """The id of the span that these name: 16 hex digits."""
    return hashlib.sha256("\0".join(["span", *causes]).encode()).hexdigest()[:16]


def reply_span_id(agent_id: str, entry: int) -> str:
    """The id of the span of a model's reply, by the number that its journal entry has, or will have."""
    return span_id(agent_id, "chat", str(entry))


def traceparent(job_id: str, agent_id: str, entry: int) -> str:
    """The W3C header that a request of the model carries whose reply is to be this entry of the agent's journal."""
    return f"00-{trace_id(job_id)}-{reply_span_id(agent_id, entry)}-01"
