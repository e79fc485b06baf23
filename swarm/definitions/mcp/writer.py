"""Writes an entry into a file of MCP servers and keeps the rest of the file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from swarm.core.errors import ConfigurationError
from swarm.definitions.mcp.formats import read_entry
from swarm.definitions.mcp.servers import Server
from swarm.definitions.sources import Unusable, read_text, show


def make_entry(
    command: list[str], *, url: str = "", sse: bool = False, env: list[str], headers: list[str], tools: list[str]
) -> dict[str, Any]:
    """Build an entry from command-line options. Raises `ConfigurationError`."""
    if bool(command) == bool(url):
        raise ConfigurationError("give either a program behind `--`, or --url")
    entry: dict[str, Any] = {"type": "sse" if sse else "http", "url": url} if url else {"command": command[0]}
    entry |= {"args": command[1:]} if command[1:] else {}
    entry |= {"env": _pairs(env, "--env")} if env else {}
    entry |= {"headers": _pairs(headers, "--header")} if headers else {}
    return entry | ({"enabledTools": tools} if tools else {})


def add_entry(path: Path, name: str, entry: dict[str, Any], *, replace: bool = False) -> Server:
    """Write the entry into the file, which is created if needed, and return the server. Raises `ConfigurationError`."""
    server = read_entry(name, entry, "claude").server
    assert server is not None
    content = _load(path)
    servers = content.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise ConfigurationError(f"{path}: `mcpServers` is not a table; correct it there first")
    if name in servers and not replace:
        raise ConfigurationError(f"{path} has a server {show(name)} already; replace it with --replace")
    servers[name] = entry
    _save(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return server


def _pairs(given: list[str], option: str) -> dict[str, str]:
    for pair in given:
        if not pair.partition("=")[0].strip() or "=" not in pair:
            raise ConfigurationError(f"{option} {pair[:40]!r} is not NAME=VALUE")
    return {name.strip(): value for name, _, value in (pair.partition("=") for pair in given)}


def _load(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {}
    try:
        # Not read as JSON with comments, because comments would be lost.
        content = json.loads(read_text(path))
    except (Unusable, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be added to: {error}. Write the entry there by hand") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} is not a table; write the entry there by hand")
    return content


def _save(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path.resolve())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
