"""Builds the JSON schema of a function's parameters, with descriptions from its docstring."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from swarm.core.errors import ToolError
from swarm.definitions.own.context import ToolContext

_ARGUMENTS = re.compile(r"^(Args|Arguments|Parameters):$")
_SECTION = re.compile(r"^[A-Z][A-Za-z ]+:$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?: *\([^)]*\))?: *(.*)$")


class UnusableFunction(Exception):
    """The reason why a function cannot be a tool; the caller adds the function's name and place."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function."""

    schemas: Mapping[str, Any]
    """JSON schemas by parameter."""
    definitions: Mapping[str, Any]
    """Schemas that the parameters' schemas refer to: `$defs`."""
    required: tuple[str, ...]
    context: str
    """The parameter that receives the call's context; empty if there is none."""
    adapter: TypeAdapter[dict[str, Any]]

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the model's arguments to the function's types. Raises `ToolError` with the first mismatch, in one line."""
        try:
            return self.adapter.validate_python(dict(given))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ToolError(f"{where}: {first['msg']}") from error


def read_parameters(function: Callable[..., Any]) -> Parameters:
    """Read the parameters of a function. Raises `UnusableFunction`."""
    told = describe_arguments(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    context = ""
    for parameter, hint in _hints(function):
        if hint is ToolContext or ToolContext in typing.get_args(hint):
            context = parameter.name
            continue
        if isinstance(parameter.default, FieldInfo):
            raise UnusableFunction(f"the default of {parameter.name!r} is a Field; write Annotated[TYPE, Field(…)]")
        if (text := told.get(parameter.name)) and not _is_described(hint):
            hint = Annotated[hint, Field(description=text)]
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
            hint = NotRequired[hint]
        fields[parameter.name] = hint
    if strange := told.keys() - fields.keys() - {context}:
        raise UnusableFunction(f"its docstring describes {min(strange)!r}, which is not one of its parameters")
    return _parameters(function, fields, defaults, context)


def describe_arguments(text: str) -> dict[str, str]:
    """Return the descriptions in a docstring's `Args:`, by parameter."""
    found: dict[str, str] = {}
    inside, name, indent = False, "", 0
    for line in text.splitlines():
        words = line.strip()
        if not line[:1].isspace() and words:
            inside, name = bool(_ARGUMENTS.match(words)), ""
        elif inside and words:
            depth = len(line) - len(line.lstrip())
            entry = _ARGUMENT.match(words) if not name or depth <= indent else None
            if entry:
                name, indent, found[entry[1]] = entry[1], depth, entry[2]
            elif name:
                found[name] = f"{found[name]} {words}".strip()
    return found


def describe_function(text: str) -> str:
    """Return the part of a docstring before its first section."""
    lines: list[str] = []
    for line in text.splitlines():
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def _hints(function: Callable[..., Any]) -> list[tuple[inspect.Parameter, Any]]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation can raise anything
        raise UnusableFunction(f"its annotations cannot be read: {type(error).__name__}: {error}") from error
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UnusableFunction(f"it takes {parameter}; give each parameter a name of its own")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UnusableFunction(f"{parameter.name!r} is positional-only; remove the / behind it")
        if parameter.name not in hints:
            raise UnusableFunction(f"{parameter.name!r} has no type; annotate it")
        found.append((parameter, hints[parameter.name]))
    return found


def _is_described(hint: Any) -> bool:
    return any(isinstance(each, FieldInfo) and each.description for each in getattr(hint, "__metadata__", ()))


def _parameters(
    function: Callable[..., Any], fields: dict[str, Any], defaults: dict[str, Any], context: str
) -> Parameters:
    # Made by a call instead of a class statement, because the parameters are known only now and can have any name.
    make: Any = TypedDict
    shape = make(f"{function.__name__}_input", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    shape.__module__ = function.__module__
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
        schema = adapter.json_schema()
    except (PydanticUserError, NameError) as error:
        raise UnusableFunction(f"no JSON schema can be made of its types: {str(error).splitlines()[0]}") from error
    schemas = {name: _without_titles(each) for name, each in schema.get("properties", {}).items()}
    for name, value in defaults.items():
        if value is not None and isinstance(value, str | int | float | bool):
            schemas[name] = {**schemas[name], "default": value}
    definitions = {name: _without_titles(each) for name, each in schema.get("$defs", {}).items()}
    return Parameters(schemas, definitions, tuple(schema.get("required", ())), context, adapter)


def _without_titles(schema: Any) -> Any:
    """Remove pydantic's generated titles from a schema, because every request would contain them."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    for key, value in kept.items():
        if key in ("properties", "$defs", "patternProperties"):
            kept[key] = {name: _without_titles(part) for name, part in value.items()}
        elif key not in ("default", "const", "enum", "examples"):
            kept[key] = _without_titles(value)
    return kept
