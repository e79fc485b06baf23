"""The tools themselves, found through the table's rows and imported when first used; and the check of what a model gives them."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from swarm.core.errors import ConfigurationError, ToolError
from swarm.core.tags import split_tags
from swarm.definitions.own.declaration import declaration_of
from swarm.definitions.tools import ToolRow, all_rows, row_of
from swarm.permissions.sandbox import Backend, Wanted, choose_backend
from swarm.tools import Tool
from swarm.tools.own import make_tool

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MAX_MESSAGE = 300


def offered_tools() -> Iterator[Tool]:
    """Every tool that agents here may have, before any filter, in the order in which models are given them."""
    return (load_tool(row.home) for row in all_rows() if row.home)


def can_offer(row: ToolRow, tags: Collection[str], *, sandboxed: bool) -> bool:
    """Whether a worker with these tags, and a sandbox or none, can carry the tool's calls out."""
    return set(row.tags) <= set(tags) and (sandboxed or not row.sandboxed)


@cache
def tools_here(sandbox: Wanted, tags: str) -> tuple[bool, tuple[Tool, ...]]:
    """Whether a worker of this host with these settings has a sandbox, and the tools that its agents may have, before any filter."""
    names, sandboxed = split_tags(tags), isinstance(choose_backend(sandbox), Backend)
    return sandboxed, tuple(tool for tool in offered_tools() if can_offer(tool.row, names, sandboxed=sandboxed))


def find_offers(tags: Collection[str], *, sandboxed: bool) -> dict[str, str]:
    """The tools from outside that such a worker has, with the version of each: it changes with what models read of it."""
    rows = (row for row in all_rows() if row.origin and row.home and can_offer(row, tags, sandboxed=sandboxed))
    return {row.name: version_of(load_tool(row.home)) for row in rows}


def version_of(tool: Tool) -> str:
    """Tells two versions of a tool apart that are not the same to a model."""
    text = json.dumps(tool.schema(), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@cache
def load_tool(home: str) -> Tool:
    """The tool at `module:NAME`. Raises `ConfigurationError` where there is none."""
    module, _, name = home.partition(":")
    try:
        tool = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"no tool is at {home}: {error}") from error
    if (declaration := declaration_of(tool)) is not None:
        return make_tool(declaration)
    if not isinstance(tool, Tool):
        raise ConfigurationError(f"{home} is a {type(tool).__name__}, not a tool")
    return tool


def check_object(tool: Tool, given: Any) -> dict[str, Any]:
    """`given` itself, if it is an object: of a tool that is checked where it is carried out. Raises `ToolError`."""
    if not isinstance(given, dict):
        raise ToolError(f"{tool.name}: the input must be an object")
    return given


def validate_input(tool: Tool, given: Any) -> dict[str, Any]:
    """`given` itself, if it satisfies the tool's schema. Raises `ToolError` that says in a line what does not."""
    checked = check_object(tool, given)
    for name in checked:
        if name not in tool.parameters:
            raise ToolError(_unknown_parameter(tool, str(name)))
    if errors := list(tool.validator.iter_errors(checked)):
        from jsonschema.exceptions import best_match

        raise ToolError(f"{tool.name}: {_explain(best_match(errors))}")
    return checked


def _unknown_parameter(tool: Tool, name: str) -> str:
    near = difflib.get_close_matches(name, tool.parameters, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{tool.name}: unknown parameter {name!r}{hint}; it takes: {', '.join(tool.parameters) or 'none'}"


def _explain(error: ValidationError) -> str:
    where = error.json_path.removeprefix("$").removeprefix(".")
    if error.validator == "required":
        # jsonschema's own message begins with the name's repr: `'file_path' is a required property`.
        return f"{f'in {where}, ' if where else ''}the parameter {error.message.split(' ')[0]} is missing"
    message = error.message if len(error.message) <= _MAX_MESSAGE else f"{error.message[:_MAX_MESSAGE]}…"
    return f"{where}: {message}" if where else message


def describe_call(call: Mapping[str, Any]) -> str:
    """The activity line for a model's call."""
    home = row_of(call["name"]).home
    return load_tool(home).describe_call(call["input"]) if home else str(call["name"])
