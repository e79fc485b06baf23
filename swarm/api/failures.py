"""What callers are told of a failure: always JSON, `{"error": {"code", "message"}}`."""

from __future__ import annotations

from pydantic import BaseModel

from swarm.web.failures import describe_failure


class ErrorDetail(BaseModel):
    """Why a request was not done."""

    code: str
    """For programs: `bad_request`, `unauthorized`, `forbidden`, `unknown`, `refused`, `question_closed`, `conflict`, `redis_away` …"""
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


def explain(error: Exception) -> Refusal | None:
    """What to answer; None for a fault of the server's own."""
    if isinstance(error, Refusal):
        return error
    status, body = describe_failure(error)
    return None if status == 500 else Refusal(status, body["error"]["code"], body["error"]["message"])
