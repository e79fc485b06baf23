"""One act or read of a swarm as a row: its input, its result, the permission it needs, and its function.

HTTP, the page and the MCP server mount rows. They translate requests, permissions and errors, and know no single act.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from swarm.client.failures import BadRequest, not_valid
from swarm.client.swarm import Swarm
from swarm.store.api_keys import Scope

MAX_WAIT_SECONDS = 50.0
"""Clients give up after a minute."""
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


class Body(BaseModel):
    """The base of all input: an unknown field is refused, because it may be a misspelt one."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class OfJob(Body):
    """Names a job."""

    job: str
    """The job's id."""


class OfAgent(Body):
    """Names an agent."""

    agent: str
    """The agent's id."""


class OfMap(Body):
    """Names a map."""

    map: str
    """The map's id."""


class Wait(Body):
    """The base of the input of a read that may wait."""

    wait_seconds: float = Field(default=0, ge=0, le=MAX_WAIT_SECONDS)
    """Return after this long at the latest, or when there is something new."""


def _check_absolute(folder: str) -> str:
    if not Path(folder).is_absolute():
        raise ValueError(f"{folder!r} is not an absolute path")
    return folder


Folder = Annotated[str, AfterValidator(_check_absolute)]
"""A folder of the workers' hosts."""


@dataclass(frozen=True)
class Invocation:
    """One call of an operation, checked."""

    swarm: Swarm
    """Within the caller's ceiling."""
    given: Any
    """An instance of the operation's `takes`."""
    by: str
    """The caller's name, for the records."""
    folder: Path | None = None
    """Where jobs work that name no folder."""
    tell: Callable[[str], None] = lambda what: None
    """Reports progress; raises once the caller has gone."""
    ready: Callable[[], None] = lambda: None
    """Sees to it that somebody runs jobs, where that is this machine's matter."""


@dataclass(frozen=True)
class Operation:
    """One act (`POST`) or read (`GET`)."""

    method: Literal["GET", "POST"]
    path: str
    """Its parameters are fields of `takes`; the other fields come from the query, or from the body."""
    scope: Scope
    run: Callable[[Invocation], Any]
    """Runs on a thread. Its name is the operation's, its docstring the description."""
    takes: type[Body]
    returns: type[BaseModel]
    """If it has a field `new` that is false, nothing was made: the status is 200."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of an HTTP request: header → the field that it sets."""
    streams: bool = False
    """The result is an iterator of server-sent events."""

    @property
    def name(self) -> str:
        """Of the operation in documents, of the tool in MCP."""
        return self.run.__name__

    @property
    def description(self) -> str:
        """For people, and for models."""
        return " ".join((self.run.__doc__ or "").split())

    @property
    def parameters(self) -> list[str]:
        """The fields that come from the path."""
        return _PARAMETER.findall(self.path)

    @property
    def content(self) -> dict[str, bool]:
        """The fields that come from the query or the body, and whether each is required."""
        fields = self.takes.model_fields.items()
        return {name: field.is_required() for name, field in fields if name not in self.parameters}

    def read(self, path: Mapping[str, Any], given: object, where: str) -> Body:
        """The checked input. Raises `BadRequest`, which names the field."""
        if not isinstance(given, dict):
            raise BadRequest(f"{where} is no JSON object")
        if twice := sorted(path.keys() & given.keys()):
            raise BadRequest(f"{where}: {twice[0]}: it is in the path already", twice[0])
        try:
            return self.takes.model_validate({**given, **path})
        except ValidationError as error:
            raise not_valid(error, where) from None
