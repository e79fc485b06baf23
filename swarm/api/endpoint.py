"""What an endpoint declares of itself: its path, what a key needs for it, what it takes and returns; and how failures are told.

Routes, checks and the OpenAPI document are all made from the declarations. A failure is always JSON, `{"error": {"code", "message"}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from swarm.client.swarm import Swarm
from swarm.store.api_keys import ApiKey, Scope
from swarm.web.failures import describe_failure


class Body(BaseModel):
    """The base of everything that callers send: what is not known is refused, for it may be a word that was mistyped."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Nothing(Body):
    """For an endpoint without a body, or without parameters."""


class Wait(Body):
    """The base of the parameters with which a request may wait for something to happen."""

    wait: float = Field(default=0, ge=0, le=60)
    """Seconds; after that what there is by then is returned."""


def _check_absolute(folder: str) -> str:
    if not Path(folder).is_absolute():
        raise ValueError(f"{folder!r} is not an absolute path")
    return folder


Folder = Annotated[str, AfterValidator(_check_absolute)]
"""A folder of the workers' hosts."""


@dataclass(frozen=True)
class Call:
    """One request, checked."""

    swarm: Swarm
    """Within the key's ceiling."""
    key: ApiKey
    path: Mapping[str, str]
    query: Any
    """An instance of the endpoint's `query`."""
    body: Any
    """An instance of the endpoint's `body`."""
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Returned:
    """What an endpoint returns where the status is not its usual one."""

    value: Any
    status: int


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    method: Literal["GET", "POST"]
    path: str
    scope: Scope
    run: Callable[[Call], Any]
    """Runs in a thread. Its docstring is the endpoint's description."""
    returns: Any
    """The type of what `run` returns, as pydantic understands it."""
    body: type[Body] = Nothing
    query: type[Body] = Nothing
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the request: name and meaning."""
    streams: bool = False
    """Its answer is server-sent events; `run` returns the stream."""

    @property
    def name(self) -> str:
        """Of the operation, in the document and in clients made from it."""
        return self.run.__name__


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
