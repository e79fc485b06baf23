"""Failures as remote callers see them: a status, a code for programs, a text for people. HTTP, the page and MCP share the table."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from swarm.core.errors import (
    AgentCancelled,
    BadMessageId,
    BeyondCeiling,
    IdempotencyConflict,
    JobLost,
    JobOpen,
    MessageRefused,
    ObjectMissing,
    ObjectRefused,
    ObjectsAway,
    QuestionClosed,
    RedisFull,
    RedisUnavailable,
    StepRefused,
    SwarmError,
    UnknownAgent,
    UnknownQuestion,
)
from swarm.store.outage import REDIS_ERRORS

_TABLE: tuple[tuple[type[SwarmError] | tuple[type[SwarmError], ...], int, str], ...] = (
    (BadMessageId, 400, "bad_request"),
    (BeyondCeiling, 403, "forbidden"),
    ((UnknownAgent, UnknownQuestion), 404, "unknown"),
    (QuestionClosed, 409, "question_closed"),
    (IdempotencyConflict, 409, "conflict"),
    ((MessageRefused, AgentCancelled, JobOpen), 409, "refused"),
    (StepRefused, 409, "act_refused"),
    (JobLost, 410, "lost"),
    (RedisFull, 503, "redis_full"),
    (RedisUnavailable, 503, "redis_away"),
    ((ObjectsAway, ObjectRefused, ObjectMissing), 503, "objects_away"),
    (SwarmError, 400, "refused"),
)
"""Status and code of an error; the first matching row counts."""


class ErrorDetail(BaseModel):
    """The reason why a request failed."""

    model_config = ConfigDict(extra="allow")

    code: str
    """For programs: `bad_request`, `unauthorized`, `forbidden`, `unknown`, `refused`, `question_closed`, `conflict`, `redis_away` …"""
    message: str
    """For people: what happened, to which object, and what to do."""


class Failure(BaseModel):
    """The body of every unsuccessful response."""

    error: ErrorDetail


class Refusal(SwarmError):
    """A refused request; `details` are further fields of the error."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        self.status, self.code, self.details = status, code, details
        super().__init__(message)

    @property
    def body(self) -> dict[str, Any]:
        """The error as JSON, a `Failure`."""
        return {"error": {"code": self.code, "message": str(self), **self.details}}


class BadRequest(Refusal):
    """A request that cannot be understood; `field` names the faulty part, if there is one."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(400, "bad_request", message, **({"field": field} if field else {}))


class NotThere(Refusal):
    """A path to something that does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(404, "unknown", message)


def not_valid(error: ValidationError, where: str) -> BadRequest:
    """The first fault in a caller's input."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return BadRequest(f"{where}: {field + ': ' if field else ''}{first['msg']}", field)


def explain(error: BaseException, **details: Any) -> Refusal:
    """The refusal that reports an error to a caller; status 500 is a fault of the server."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, BeyondCeiling):
        details["field"] = error.field
    for kinds, status, code in _TABLE:
        if isinstance(error, kinds):
            return Refusal(status, code, str(error), **details)
    if isinstance(error, REDIS_ERRORS):
        return Refusal(503, "redis_away", "Redis does not answer; try again")
    return Refusal(500, "failed", f"the server failed ({type(error).__name__}); see its log")
