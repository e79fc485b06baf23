"""The built-in tools by name, and the check of what a model gives them.

The other names they are known by are in `swarm.definitions.names`.
"""

from __future__ import annotations

import difflib
import functools
from typing import TYPE_CHECKING, Any

from swarm.errors import ToolError
from swarm.tools import Tool

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

    TOOLS: dict[str, Tool]
    """The built-in tools without a sandbox, built when first asked for."""

_MAX_MESSAGE = 300


@functools.cache
def builtin_tools() -> dict[str, Tool]:
    """The tools of files, search, shell (without a sandbox) and todo; the same dictionary each time."""
    from swarm.tools.edit import EDIT, WRITE
    from swarm.tools.read import READ
    from swarm.tools.search import GLOB, GREP, LS
    from swarm.tools.shell import BASH_OUTPUT, KILL_SHELL, bash_tool
    from swarm.tools.todo import TODO_WRITE

    tools = (READ, WRITE, EDIT, bash_tool(None), BASH_OUTPUT, KILL_SHELL, GLOB, GREP, LS, TODO_WRITE)
    return {tool.name: tool for tool in tools}


def __getattr__(name: str) -> Any:
    if name == "TOOLS":
        return builtin_tools()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def validate_input(tool: Tool, given: Any) -> dict[str, Any]:
    """`given` itself, if it satisfies the tool's schema. Raises `ToolError` that says in a line what does not."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    if not isinstance(given, dict):
        raise ToolError(f"{tool.name}: the input must be an object")
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    if tool.input_schema.get("additionalProperties", False) is False:
        for name in given:
            if name not in properties:
                raise ToolError(_unknown_parameter(tool, str(name), list(properties)))
    error = best_match(Draft202012Validator(tool.input_schema).iter_errors(given))
    if error is not None:
        raise ToolError(f"{tool.name}: {_explain(error)}")
    return given


def _unknown_parameter(tool: Tool, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{tool.name}: unknown parameter {name!r}{hint}; it takes: {', '.join(known) or 'none'}"


def _explain(error: ValidationError) -> str:
    where = error.json_path.removeprefix("$").removeprefix(".")
    if error.validator == "required":
        # jsonschema's own message begins with the name's repr: `'file_path' is a required property`.
        return f"{f'in {where}, ' if where else ''}the parameter {error.message.split(' ')[0]} is missing"
    message = error.message if len(error.message) <= _MAX_MESSAGE else f"{error.message[:_MAX_MESSAGE]}…"
    return f"{where}: {message}" if where else message
