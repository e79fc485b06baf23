"""`tool`: makes a tool for agents of a typed function.

    from swarm import ToolContext, tool

    @tool(effects="idempotent", network=True, subject="account")
    def charge_card(account: str, cents: int, context: ToolContext) -> str:
        "Charge a customer's card, and return the receipt's number."
        return bank.charge(account, cents, idempotency_key=context.idempotency_key)

The function stays what it was, and can be called and tested as such.
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
"""What a call changes: nothing; something that must not happen twice, so an interrupted call is never run again; or something that
happens once however often it is done with the same `idempotency_key`, so an interrupted call is run again."""
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_KINDS = {"none": Kind.LOOK, "once": Kind.EFFECT, "idempotent": Kind.IDEMPOTENT}
_MARK = "__swarm_tool__"
DEFAULT_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Declaration:
    """A function as a tool."""

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
    effects: Effects | None = None,
    read_only: bool = False,
    network: bool = False,
    sandboxed: bool = False,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    subject: str = "",
    aliases: Sequence[str] = (),
    needs: Sequence[str] = (),
) -> Callable[[FunctionT], FunctionT]: ...


def tool(
    function: FunctionT | None = None,
    /,
    *,
    name: str | None = None,
    effects: Effects | None = None,
    read_only: bool = False,
    network: bool = False,
    sandboxed: bool = False,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    subject: str = "",
    aliases: Sequence[str] = (),
    needs: Sequence[str] = (),
) -> Any:
    """Make a tool of a typed function, which may be `async`: its docstring is the description, its parameters are the schema.

    `effects` says what a call changes (default `once`; `read_only=True` is `none`), `network` that it may carry out of the house what an
    agent has read, `timeout` the seconds after which a call ends. `sandboxed` runs each call in a process of its own that the kernel holds
    to what the agent may do. `subject` is the parameter that rules such as `charge_card(acme-*)` are about; `aliases` are other names;
    `needs` are tags that a worker must have (`SWARM_TAGS`) to offer it.

    Raises `ConfigurationError` that names the function, its file and its line.
    """

    def declare(function: FunctionT) -> FunctionT:
        place = place_of(function)
        try:
            _check_function(function)
            row = ToolRow(
                *(
                    name or function.__name__,
                    _kind_of(effects, read_only),
                    f"{function.__module__}:{function.__name__}",
                ),
                *(subject, "value" if subject else ""),
                network=network,
                timeout_seconds=timeout,
                aliases=" ".join(re.sub("[_-]", "", alias).lower() for alias in aliases),
                tags=_read_needs(needs),
                sandboxed=sandboxed,
            )
            declaration = _make(function, row, timeout, place)
        except UnusableFunction as error:
            raise ConfigurationError(f"{place} cannot be a tool: {error}") from error
        setattr(function, _MARK, declaration)
        return function

    return declare if function is None else declare(function)


def declaration_of(value: object) -> Declaration | None:
    """What `tool` made of a function; None for whatever it was not used on."""
    found = getattr(value, _MARK, None) if inspect.isfunction(value) else None
    return found if isinstance(found, Declaration) else None


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is, for messages."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code is not None else str(name)


def _kind_of(effects: Effects | None, read_only: bool) -> Kind:
    if effects is not None and effects not in _KINDS:
        raise UnusableFunction(f"effects={effects!r} is none of {', '.join(map(repr, _KINDS))}")
    if read_only and effects not in (None, "none"):
        raise UnusableFunction(f"read_only=True and effects={effects!r} contradict each other; give one of them")
    return _KINDS["none" if read_only else effects or "once"]


def _check_function(function: Callable[..., Any]) -> None:
    if not inspect.isfunction(function):
        raise UnusableFunction(f"it is a {type(function).__name__}; use `tool` on a function")
    if "." in function.__qualname__:
        raise UnusableFunction("it is not at the top level of its module, where workers could find it")


def _read_needs(needs: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(split_tags(",".join(needs)))
    except ValueError as error:
        raise UnusableFunction(f"of its needs {error}") from error


def _make(function: Callable[..., Any], row: ToolRow, timeout: float, place: str) -> Declaration:
    if reason := refuse_name(row.name):
        raise UnusableFunction(reason)
    if timeout <= 0:
        raise UnusableFunction(f"timeout={timeout:g} is no time; give seconds")
    parameters = read_parameters(function)
    if row.subject and row.subject not in parameters.schemas:
        raise UnusableFunction(f"subject={row.subject!r} is none of its parameters")
    description = describe_function(inspect.getdoc(function) or "")
    if not description:
        raise UnusableFunction("it has no docstring, by which a model knows what it is for")
    return Declaration(function, row, description, parameters, timeout, place)
