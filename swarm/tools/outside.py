"""Tools from outside the package: those that installed packages and modules named in the settings declare.

A package names a module under the entry point group `swarm.tools`; `SWARM_TOOLS` names modules without one. The module's `TOOLS` are
rows of `swarm.definitions.tools`. They are trusted as installed code is: they run in the worker.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from swarm.definitions.tools import ToolRow, declare
from swarm.errors import ConfigurationError

GROUP = "swarm.tools"


@cache
def declare_outside_tools(modules: str) -> None:
    """Add to the table what installed packages and these modules (parted by commas) declare; once for each process.

    Raises `ConfigurationError` for a module that cannot be imported or has no such rows, and for a name that is taken.
    """
    named = [(name.strip(), f"SWARM_TOOLS names {name.strip()}") for name in modules.split(",") if name.strip()]
    installed = [(point.value, f"the entry point {point.name} of {GROUP}") for point in entry_points(group=GROUP)]
    for module, source in [*installed, *named]:
        declare(*_read_rows(module, source))


def _read_rows(module: str, source: str) -> tuple[ToolRow, ...]:
    try:
        rows = tuple(import_module(module).TOOLS)
    except Exception as error:  # whatever importing foreign code may raise
        raise ConfigurationError(f"{source}: its tools cannot be loaded: {type(error).__name__}: {error}") from error
    if strange := [row for row in rows if not isinstance(row, ToolRow)]:
        raise ConfigurationError(f"{source}: `TOOLS` holds a {type(strange[0]).__name__}, not rows of tools")
    return rows
