"""Ids: short, sortable by eye, and derived where a repeat must get the same one."""

from __future__ import annotations

import hashlib
import secrets


def new_job_id() -> str:
    """Return a fresh job id, `job-` and 16 hex digits."""
    return "job-" + secrets.token_hex(8)


def job_id_for(idempotency_key: str) -> str:
    """Return the id of every job submitted with this key."""
    return "job-" + _digest("job", idempotency_key)


def new_map_id() -> str:
    """Return a fresh map id, `map-` and 16 hex digits."""
    return "map-" + secrets.token_hex(8)


def new_evaluation_id() -> str:
    """Return a fresh evaluation id, `eval-` and 16 hex digits."""
    return "eval-" + secrets.token_hex(8)


def line_job_id(map_id: str, number: int, attempt: int) -> str:
    """Return the job id of an attempt at a line of a map; a repeat gets the same id."""
    return "job-" + _digest("map", map_id, str(number), str(attempt))


def root_agent_id(job_id: str) -> str:
    """Return the id of a job's root agent: derived, so that submitting a job twice makes one root."""
    return _derived("root", job_id)


def child_agent_id(parent_id: str, tool_use_id: str) -> str:
    """Return the id of the agent that `parent_id` spawned with the call `tool_use_id`.

    Derived from its cause, so a parent that crashes and spawns again spawns the same child.
    """
    return _derived("child", parent_id, tool_use_id)


def request_id(agent_id: str, tool_use_id: str) -> str:
    """Return the id of the request that an agent opened with a call; derived."""
    return "request-" + _digest("request", agent_id, tool_use_id)


def callback_id(job_id: str, place: int) -> str:
    """Return the id of a job's callback at this place in the list."""
    return f"callback-{_digest('callback', job_id, str(place))}"


def question_id(agent_id: str, tool_use_id: str) -> str:
    """Return the id of the question about an agent's call."""
    return "question-" + _digest("question", agent_id, tool_use_id)


def _derived(*causes: str) -> str:
    return "agent-" + _digest(*causes)


def _digest(*causes: str) -> str:
    return hashlib.sha256("\0".join(causes).encode()).hexdigest()[:16]


# -- W3C trace ids: derived, too, so a parent's is known before it has ended -------------------------------------------


def trace_id(job_id: str) -> str:
    """Return a job's trace id: 32 hex digits."""
    return hashlib.sha256(f"trace\0{job_id}".encode()).hexdigest()[:32]


def span_id(*causes: str) -> str:
    """Return the span id of these causes: 16 hex digits."""
    return hashlib.sha256("\0".join(["span", *causes]).encode()).hexdigest()[:16]


def reply_span_id(agent_id: str, entry: int) -> str:
    """Return the span id of a model's reply by the number of its journal entry."""
    return span_id(agent_id, "chat", str(entry))


def traceparent(job_id: str, agent_id: str, entry: int) -> str:
    """Return the W3C header of the model request whose reply becomes this journal entry."""
    return f"00-{trace_id(job_id)}-{reply_span_id(agent_id, entry)}-01"
