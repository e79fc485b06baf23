"""Tools from outside the package, declared by installed packages and modules named in the settings.

A package names a module, or one function of it, under the entry point group `swarm.tools`; `SWARM_TOOLS` names modules without one. A
module's tools are the functions that it declares with `swarm.tool`, and the rows of its `TOOLS`, if it has any; its workflows are those
that it declares with `swarm.workflow`. They are trusted like other installed code: they run in the worker.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from swarm.core.errors import ConfigurationError
from swarm.definitions.own.declaration import declaration_of
from swarm.definitions.own.workflow import declare_workflow, workflow_of
from swarm.definitions.tools import ToolRow, declare, row_of

GROUP = "swarm.tools"


@dataclass(frozen=True)
class _ToolSource:
    """A module or function that provides tools."""

    value: str
    """`module` or `module:function`."""
    said: str
    """The setting or entry point that names it."""
    origin: str


def declare_outside_tools(modules: str) -> None:
    """Add to the table what installed packages and these modules (parted by commas) declare; once for each process.

    Raises `ConfigurationError` for the first that cannot be used: a module that cannot be imported or has no tools, a function of
    which no tool can be made, a name that is taken.
    """
    if faults := find_outside_tools(modules):
        raise ConfigurationError(faults[0])


@cache
def find_outside_tools(modules: str) -> tuple[str, ...]:
    """Add the same tools, skip unusable sources, and return one sentence for each fault."""
    faults = []
    for source in _sources(modules):
        try:
            rows, workflows = _read(source)
            declare_all(*rows)
            for function in workflows:
                declare_workflow(function)
        except ConfigurationError as error:
            faults.append(f"{source.said}: {error}")
    return tuple(faults)


def declare_all(*rows: tuple[ToolRow, str]) -> None:
    """Add rows to the table, each with its place; the others are added, too, if one cannot be. Raises `ConfigurationError`."""
    faults = []
    for row, place in rows:
        if row_of(row.name).home == row.home:
            continue  # named twice
        try:
            declare(row)
        except ConfigurationError as error:
            faults.append(f"{place}: {error}")
    if faults:
        raise ConfigurationError("; ".join(faults))


def _sources(modules: str) -> Iterator[_ToolSource]:
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.value, point.name)):
        yield _ToolSource(point.value, f"the entry point {point.name} of {GROUP}", _package_of(point))
    for name in filter(None, map(str.strip, modules.split(","))):
        yield _ToolSource(name, f"SWARM_TOOLS names {name}", name)


def _package_of(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.module


def _read(source: _ToolSource) -> tuple[tuple[tuple[ToolRow, str], ...], list[Any]]:
    name, _, member = source.value.partition(":")
    try:
        module = import_module(name)
        found, workflows = tuple(_rows_of(module, member, source)), _workflows_of(module, member)
    except Exception as error:  # whatever importing foreign code may raise
        known = isinstance(error, ConfigurationError)
        told = str(error) if known else f"{type(error).__name__}: {error}{_place_of(error, name)}"
        raise ConfigurationError(f"its tools cannot be loaded: {told}") from error
    if not found and not workflows:
        where = getattr(module, "__file__", None) or name
        raise ConfigurationError(
            f"there is no tool in it ({where}); declare functions with `swarm.tool` or `swarm.workflow`"
        )
    return found, workflows


def _workflows_of(module: ModuleType, member: str) -> list[Any]:
    values = [getattr(module, member)] if member else vars(module).values()
    return [one for one in values if workflow_of(one) is not None and _is_of(one.__module__, module)]


def _place_of(error: BaseException, name: str) -> str:
    """Say where in foreign code an import failed, or how to make the module `name` importable."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
        # Never looked for where a command is run: files of a workspace must not become part of a worker.
        return "; install its package, or put its folder on PYTHONPATH"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}:{error.lineno})"
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and frames[-1].filename != __file__ else ""


def _rows_of(module: ModuleType, member: str, source: _ToolSource) -> Iterator[tuple[ToolRow, str]]:
    listed = getattr(module, "TOOLS", ())
    own = [value for value in vars(module).values() if _is_of(getattr(value, "__module__", None), module)]
    for value in [getattr(module, member)] if member else [*own, *listed]:
        if (declaration := declaration_of(value)) is not None:
            yield replace(declaration.row, origin=source.origin), declaration.place
    for row in () if member else listed:
        if isinstance(row, ToolRow):
            yield replace(row, origin=row.origin or source.origin), module.__name__
        elif declaration_of(row) is None:
            raise ConfigurationError(f"`TOOLS` holds a {type(row).__name__}, not rows of tools")


def _is_of(home: object, module: ModuleType) -> bool:
    """Whether the module or a part of it defines the object, instead of only importing it."""
    return isinstance(home, str) and f"{home}.".startswith(f"{module.__name__}.")
