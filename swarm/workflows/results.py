"""The results that a program gets and gives: typed by pydantic, errors as values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from swarm.core.errors import CallFailed, ConfigurationError
from swarm.core.plain import load_json

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Ok(Generic[ValueT]):
    """A branch that succeeded."""

    value: ValueT
    ok: Literal[True] = True


@dataclass(frozen=True)
class Failed:
    """A branch that failed."""

    error: Exception
    ok: Literal[False] = False


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return the reader of a type's values."""
    return TypeAdapter(kind)


def read_value(text: str, kind: Any) -> Any:
    """Read a JSON document as a value of this type. Raises `CallFailed`."""
    try:
        return adapter_of(kind).validate_python(load_json(text))
    except (ValueError, RecursionError) as error:
        raise CallFailed(f"the result is no {getattr(kind, '__name__', kind)}: {error}") from error


def bind_task(function: Callable[..., Any], task: str) -> dict[str, Any]:
    """Return a workflow's arguments after its `Flow`: a JSON object by name, or the whole task as the only one.

    Raises `ConfigurationError` that says which are wrong.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names, hints = [one.name for one in parameters], get_type_hints(function)
    given = _name_arguments(read_task(task), names)
    missing = [one.name for one in parameters if one.default is one.empty and one.name not in given]
    if wrong := [f"no {name}" for name in missing] + [f"an unknown {name}" for name in given if name not in names]:
        raise ConfigurationError(
            f"the task has {', '.join(wrong)}; give a JSON object with {', '.join(names) or 'nothing'}"
        )
    try:
        return {name: _read_argument(name, value, hints.get(name, Any)) for name, value in given.items()}
    except ValueError as error:
        raise ConfigurationError(
            f"the task does not fit: {error}; give a JSON object with {', '.join(names)}"
        ) from error


def _name_arguments(given: Any, names: list[str]) -> dict[str, Any]:
    """Return a task's values by name; one parameter alone takes the whole task, unless it is named."""
    if isinstance(given, dict) and (len(names) != 1 or not given or names[0] in given):
        return given
    return {names[0]: given} if len(names) == 1 and given not in ("", None) else {}


def _read_argument(name: str, value: Any, kind: Any) -> Any:
    """Return the value as one of this type. Raises `ValueError`."""
    try:
        return adapter_of(kind).validate_python(value)
    except ValidationError as error:
        why = "; ".join(".".join([name, *map(str, one["loc"])]) + f": {one['msg']}" for one in error.errors()[:3])
        raise ValueError(why) from error


def read_task(task: str) -> Any:
    """Return the task as data if it is a JSON document, else as text."""
    try:
        return load_json(task)
    except (ValueError, RecursionError):
        return task


def as_data(value: Any) -> Any:
    """Return a program's value as JSON data: an object as its attributes, an error as its text. Raises `ValueError` if it has none."""
    return json.loads(adapter_of(Any).dump_json(value, fallback=_attributes_of))


def _attributes_of(value: Any) -> Any:
    if isinstance(value, Exception):
        return str(value)
    attributes = getattr(value, "attributes", None)
    if not isinstance(attributes, Mapping):
        raise ValueError(f"a value of the type {type(value).__name__} cannot be a result; return data")
    return attributes


def as_text(value: Any) -> str:
    """Return a program's value as the text of an answer."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
