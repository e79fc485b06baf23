"""What a failure is to those who ask over HTTP: a status, a code for programs, and words for people."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from swarm.core.errors import (
    AgentCancelled,
    BadMessageId,
    BeyondCeiling,
    IdempotencyConflict,
    JobLost,
    MessageRefused,
    QuestionClosed,
    RedisUnavailable,
    StepRefused,
    SwarmError,
    UnknownAgent,
    UnknownQuestion,
)
from swarm.store.outage import REDIS_ERRORS


class BadRequest(SwarmError):
    """A request that cannot be understood; `field` is what of it, if it is one thing."""

    def __init__(self, message: str, field: str = "") -> None:
        self.field = field
        super().__init__(message)


def not_valid(error: ValidationError, where: str = "the body") -> BadRequest:
    """What is wrong with something that a caller sent, by the first of its faults."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return BadRequest(f"{where}: {field + ': ' if field else ''}{first['msg']}", field)


class Forbidden(SwarmError):
    """A request that is not carried out, whoever made it; `code` says why."""

    def __init__(self, code: str, message: str, status: int = 403) -> None:
        self.code, self.status = code, status
        super().__init__(message)


class NotThere(SwarmError):
    """Something that a path names and that does not exist."""


class TooMany(SwarmError):
    """So much is asked for already that no more is given now."""

    retry_after_seconds = 5.0


def describe_failure(error: BaseException) -> tuple[int, dict[str, Any]]:
    """The status and the body for an error that a function of `reads`, `acts` or a panel raised."""
    match error:
        case BadRequest(field=field):
            return 400, _body("bad_request", str(error), **({"field": field} if field else {}))
        case Forbidden(code=code, status=status):
            return status, _body(code, str(error))
        case UnknownAgent() | UnknownQuestion() | NotThere():
            return 404, _body("unknown", str(error))
        case BeyondCeiling(field=field):
            return 403, _body("forbidden", str(error), field=field)
        case QuestionClosed():
            return 409, _body("question_closed", str(error))
        case IdempotencyConflict():
            return 409, _body("conflict", str(error))
        case JobLost():
            return 410, _body("lost", str(error))
        case MessageRefused() | AgentCancelled():
            return 409, _body("refused", str(error))
        case StepRefused():
            return 409, _body("act_refused", str(error))
        case BadMessageId():
            return 400, _body("bad_request", str(error))
        case TooMany():
            return 429, _body("too_many_streams", str(error), retry_after=error.retry_after_seconds)
        case RedisUnavailable():
            return 503, _body("redis_away", str(error))
        case SwarmError():
            return 400, _body("refused", str(error))
    if isinstance(error, REDIS_ERRORS):
        return 503, _body("redis_away", "Redis does not answer; try again")
    return 500, _body("failed", "this failed, and Flower's log says why")


def _body(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}
