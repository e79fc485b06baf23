"""The decorator `tool`, which makes a typed function a tool for agents.

    from swarm import ToolContext, tool

    @tool(effects="idempotent", network=True, subject="account")
    def charge_card(account: str, cents: int, context: ToolContext) -> str:
        "Charge a customer's card, and return the receipt's number."
        return bank.charge(account, cents, idempotency_key=context.idempotency_key)

The function stays unchanged and can be called and tested directly.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from swarm.core.errors import ConfigurationError
from swarm.core.tags import split_tags
from swarm.definitions.own.schema import Parameters, UnusableFunction, describe_function, read_parameters
from swarm.definitions.tools import Kind, ToolRow, refuse_name

Effects = Literal["none", "once", "idempotent"]
"""Effects of a call: none; an effect that must not happen twice, so an interrupted call is never repeated; or an effect that happens
once per `idempotency_key`, so an interrupted call is repeated."""
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_KINDS = {"none": Kind.LOOK, "once": Kind.EFFECT, "idempotent": Kind.IDEMPOTENT}
_MARK = "__swarm_tool__"
DEFAULT_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Declaration:
    """A function that is declared as a tool."""

    function: Callable[..., Any]
    row: ToolRow
    description: str
    parameters: Parameters
    timeout_seconds: float
    place: str
    """`function at file:line`."""


@overload
def tool(function: FunctionT, /) -> FunctionT: ...


@overload
def tool(
    *,
    name: str | None = None,
    effects: Effects = "once",
    network: bool = False,
    sandboxed: bool = False,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    subject: str = "",
    aliases: Sequence[str] = (),
    needs: Sequence[str] = (),
) -> Callable[[FunctionT], FunctionT]: ...


def tool(function: FunctionT | None = None, /, **options: Any) -> Any:
    """Make a tool of a typed function, which may be `async`: its docstring is the description, its parameters are the schema.

    `effects` are the effects of a call (default `once`). `network` marks a tool that can send data of an agent to other systems.
    `timeout` is a call's time limit in seconds. `sandboxed` runs each call in its own process, in which the kernel enforces the
    agent's limits. `subject` is the parameter for rules such as `charge_card(acme-*)`. `aliases` are other names.
    `needs` are tags that a worker must have (`SWARM_TAGS`) to offer the tool.

    Raises `ConfigurationError` that names the function, its file and its line.
    """
    decorate = _Decorator(**options)
    return decorate if function is None else decorate(function)


@dataclass(frozen=True, kw_only=True)
class _Decorator:
    """The options of `tool`."""

    name: str | None = None
    effects: Effects = "once"
    network: bool = False
    sandboxed: bool = False
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    subject: str = ""
    aliases: Sequence[str] = ()
    needs: Sequence[str] = ()

    def __call__(self, function: FunctionT) -> FunctionT:
        place = place_of(function)
        try:
            _check_function(function)
            declaration = _make(function, self._row(function), self.timeout, place)
        except UnusableFunction as error:
            raise ConfigurationError(f"{place} cannot be a tool: {error}") from error
        setattr(function, _MARK, declaration)
        return function

    def _row(self, function: Callable[..., Any]) -> ToolRow:
        if self.effects not in _KINDS:
            raise UnusableFunction(f"effects={self.effects!r} is not one of {', '.join(map(repr, _KINDS))}")
        return ToolRow(
            self.name or function.__name__,
            _KINDS[self.effects],
            f"{function.__module__}:{function.__name__}",
            self.subject,
            "value" if self.subject else "",
            network=self.network,
            timeout_seconds=self.timeout,
            aliases=" ".join(re.sub("[_-]", "", alias).lower() for alias in self.aliases),
            tags=_read_needs(self.needs),
            sandboxed=self.sandboxed,
        )


def declaration_of(value: object) -> Declaration | None:
    """Return the declaration of a function; None if `tool` was not used on it."""
    found = getattr(value, _MARK, None) if inspect.isfunction(value) else None
    return found if isinstance(found, Declaration) else None


def place_of(function: Callable[..., Any]) -> str:
    """Return a function's place, `name at file:line`, for messages."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code is not None else str(name)


def _check_function(function: Callable[..., Any]) -> None:
    if not inspect.isfunction(function):
        raise UnusableFunction(f"it is a {type(function).__name__}; use `tool` on a function")
    if "." in function.__qualname__:
        raise UnusableFunction("workers cannot find it; move it to the top level of its module")


def _read_needs(needs: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(split_tags(",".join(needs)))
    except ValueError as error:
        raise UnusableFunction(f"its `needs` cannot be used: {error}") from error


def _make(function: Callable[..., Any], row: ToolRow, timeout: float, place: str) -> Declaration:
    if reason := refuse_name(row.name):
        raise UnusableFunction(reason)
    if timeout <= 0:
        raise UnusableFunction(f"timeout={timeout:g} is not positive; give seconds")
    parameters = read_parameters(function)
    if row.subject and row.subject not in parameters.schemas:
        raise UnusableFunction(f"subject={row.subject!r} is not one of its parameters")
    description = describe_function(inspect.getdoc(function) or "")
    if not description:
        raise UnusableFunction("it has no docstring; write one that describes the tool to the model")
    return Declaration(function, row, description, parameters, timeout, place)
