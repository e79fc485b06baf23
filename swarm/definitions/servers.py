"""Reads `mcpServers` of a definition: servers that it has to itself, and the names of those that it shares with the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from swarm.definitions.sources import as_text, show
from swarm.mcp.formats import Dialect, Unreadable, read_entry


def read_servers(value: Any, source: str, warnings: list[str]) -> dict[str, Any]:
    """The fields of a definition that its key `mcpServers` is: a name, a list of names and tables, or a table by name."""
    dialect: Dialect = "codex" if source.endswith(".toml") else "claude"
    servers, shared = [], []
    for name, entry in _entries(value, warnings):
        if entry is None or isinstance(entry, str | bool):
            shared.append(name)
            continue
        try:
            found = read_entry(name, entry, dialect, scope="definition", source=source)
        except Unreadable as error:
            warnings.append(f"its MCP server {show(name)} cannot be used: {error}")
            continue
        warnings.extend(f"its MCP server {show(name)}: {note}" for note in found.notes)
        servers.extend([found.server] if found.server is not None else [])
    return {"servers": servers, "shared_servers": list(dict.fromkeys(shared))}


def _entries(value: Any, warnings: list[str]) -> Iterator[tuple[str, Any]]:
    for one in value if isinstance(value, list) else [value]:
        match one:
            case None:
                continue
            case str():
                yield from ((name.strip(), None) for name in one.split(",") if name.strip())
            case Mapping():
                yield from ((as_text(name), entry) for name, entry in one.items())
            case _:
                warnings.append(f"an entry of `mcpServers` is {show(one)}, neither a name nor a table; it is ignored")
