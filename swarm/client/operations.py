"""One act or read as a row: its path, required permission, input, result and function.

HTTP, the page and the MCP server mount rows. They translate requests, permissions and errors, and contain no single act.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from swarm.client.failures import BadRequest, not_valid
from swarm.client.swarm import Swarm
from swarm.store.api_keys import Scope

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


class Body(BaseModel):
    """The base of all input: an unknown field is refused, because it may be misspelt."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _OpenBody(Body):
    model_config = ConfigDict(extra="allow")


def _check_absolute(folder: str) -> str:
    # `~` is the home of the server's user.
    if not Path(folder).is_absolute() and not folder.startswith("~/"):
        raise ValueError(f"{folder!r} is not an absolute path")
    return folder


Folder = Annotated[str, AfterValidator(_check_absolute)]
"""A folder on the workers' hosts."""
JobId = Annotated[str, Field(description="The job's id.")]
AgentId = Annotated[str, Field(description="The agent's id.")]
MapId = Annotated[str, Field(description="The map's id.")]
Words = Annotated[str, Field(min_length=1)]
Limit = Annotated[int, Field(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{1,19}(-[0-9]{1,19})?$", description="The `next` of the previous part; 0: from the beginning."
    ),
]
# Clients give up after a minute.
WaitSeconds = Annotated[
    float,
    Field(ge=0, le=50, description="Wait up to this long for something new."),
]


@dataclass(frozen=True)
class Invocation:
    """The caller of an operation and its surroundings."""

    swarm: Swarm
    """The client, within the caller's ceiling."""
    by: str
    """The caller's name, for the records."""
    folder: Path | None = None
    """Folder of jobs that name none."""
    tell: Callable[[str], None] = lambda what: None
    """Reports progress; raises once the caller has gone."""
    on_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread
    """Runs a stream's blocking function."""
    ready: Callable[[], None] = lambda: None
    """Ensures that a worker runs jobs, if this machine is responsible for it."""


@dataclass(frozen=True)
class Operation:
    """One act (`POST`) or read (`GET`)."""

    method: Literal["GET", "POST"]
    path: str
    """Path template; its parameters are fields of `takes`. Other fields come from the query or the body."""
    scope: Scope
    function: Callable[..., Any]
    """Called on a thread, with an `Invocation` and the fields of `takes`. Its name is the operation's, its docstring the description."""
    takes: type[Body]
    returns: type[BaseModel]
    wrap: str = ""
    """The only field of the result, for a function that returns its value."""
    status: int = 200
    """HTTP status; 200 if the result has a false field `new`."""
    headers: Mapping[str, str] | None = None
    """HTTP request header → the field that it sets."""
    pages: str = ""
    """The field that continues with the result's `next`: HTTP answers with a link to the next part."""
    streams: bool = False
    """The result is an iterator of server-sent events."""

    @property
    def name(self) -> str:
        """The operation's name in documents and the tool's in MCP."""
        return self.function.__name__

    @property
    def description(self) -> str:
        """The description for people and models."""
        return " ".join((self.function.__doc__ or "").split())

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
        """Check the input. Raises `BadRequest`, which names the field."""
        if not isinstance(given, dict):
            raise BadRequest(f"{where} is no JSON object")
        if twice := sorted(path.keys() & given.keys()):
            raise BadRequest(f"{where}: {twice[0]}: the path already has this field", twice[0])
        try:
            return self.takes.model_validate({**given, **path})
        except ValidationError as error:
            raise not_valid(error, where) from None

    def run(self, call: Invocation, given: Body) -> Any:
        """Call the function: the result is an instance of `returns`, or similar. Raises the function's errors."""
        found = self.function(call, **dict(given))
        return {self.wrap: found} if self.wrap else found


class Table(list[Operation]):
    """A group of operations; each is a function below one of these decorators."""

    def get(self, path: str, **more: Any) -> Callable[[_Function], _Function]:
        """Add a read."""
        return self._add("GET", path, "read", **more)

    def post(self, path: str, scope: Scope, **more: Any) -> Callable[[_Function], _Function]:
        """Add an act."""
        return self._add("POST", path, scope, **more)

    def _add(
        self, method: Literal["GET", "POST"], path: str, scope: Scope, **more: Any
    ) -> Callable[[_Function], _Function]:
        def add(function: _Function) -> _Function:
            self.append(
                Operation(method, path, scope, function, **{**_models_of(function, more.get("wrap", "")), **more})
            )
            return function

        return add


def _models_of(function: Callable[..., Any], wrap: str) -> dict[str, Any]:
    """The input model and the result type of a function."""
    hints, name = get_type_hints(function, include_extras=True), function.__name__.title().replace("_", "")
    parameters = list(inspect.signature(function).parameters.values())[1:]
    is_open = any(one.kind is one.VAR_KEYWORD for one in parameters)
    fields: dict[str, Any] = {
        one.name: (hints[one.name], ... if one.default is one.empty else one.default)
        for one in parameters
        if one.kind is not one.VAR_KEYWORD
    }
    takes = create_model(name, __base__=_OpenBody if is_open else Body, **fields)
    returned: dict[str, Any] = {wrap: (hints["return"], ...)}
    return {"takes": takes, "returns": create_model(f"{name}Result", **returned) if wrap else hints["return"]}
