"""What callers are told of a failure: always JSON, `{"error": {"code", "message"}}`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from swarm.errors import (
    ConfigurationError,
    DefinitionError,
    IdempotencyConflict,
    JobLost,
    QuestionClosed,
    RedisUnavailable,
    StepRefused,
    SwarmError,
    UnknownAgent,
    UnknownDefinition,
    UnknownQuestion,
)
from swarm.store.outage import REDIS_ERRORS, is_away


class ErrorDetail(BaseModel):
    """Why a request was not done."""

    code: str
    """For programs: `bad_request`, `unauthorized`, `forbidden`, `not_found`, `refused`, `closed`, `conflict`, `unavailable`, `failed`, …"""
    message: str
    """For people: what, which, what to do."""


class Failure(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class Refusal(Exception):
    """A request that is refused before anything is done."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.failure = Failure(error=ErrorDetail(code=code, message=message))
        super().__init__(message)


_KINDS: tuple[tuple[tuple[type[SwarmError], ...], int, str], ...] = (
    ((UnknownAgent, UnknownQuestion), 404, "not_found"),
    ((QuestionClosed,), 409, "closed"),
    ((IdempotencyConflict,), 409, "conflict"),
    ((StepRefused,), 409, "refused"),
    ((JobLost,), 410, "lost"),
    ((RedisUnavailable,), 503, "unavailable"),
    ((ConfigurationError, DefinitionError, UnknownDefinition), 400, "bad_request"),
)


def explain(error: Exception) -> Refusal | None:
    """What to answer; None for a fault of the server's own."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, REDIS_ERRORS) and is_away(error):
        return Refusal(503, "unavailable", f"Redis does not answer ({error}); try again")
    for kinds, status, code in _KINDS:
        if isinstance(error, kinds):
            return Refusal(status, code, str(error))
    return Refusal(400, "bad_request", str(error)) if isinstance(error, SwarmError) else None


def not_valid(error: ValidationError, where: str) -> Refusal:
    """What is wrong with the parameters or the body."""
    first: Any = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or where
    return Refusal(400, "bad_request", f"{where}: {place}: {first['msg']}")
