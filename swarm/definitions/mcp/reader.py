"""Reads the MCP servers that are configured for a workspace, where a job is submitted.

For each name the nearest entry holds as a whole. The order is the person's servers for this workspace, the workspace's files (up to
the root of its repository), and the person's servers for all workspaces. An entry in a workspace's file would start a program or
reach a URL. It is therefore a `Grant` over its whole content, which holds only while the person trusts the workspace.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from swarm.core.memo import look_at
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import WORKSPACE_SETTINGS, read_table
from swarm.definitions.mcp.formats import Dialect, Unreadable, read_entry
from swarm.definitions.mcp.servers import Scope, Server, describe_use, server_of, spell, tool_name
from swarm.definitions.model import AgentDefinition
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.opencode import CONFIG_NAMES
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.model import Plugin
from swarm.definitions.sources import (
    Problem,
    Unusable,
    enumerate_briefly,
    project_folders,
    read_text,
    show,
    show_path,
    show_place,
)
from swarm.definitions.tools import matches_tool

MAX_SERVERS = 100
PROJECT_FILE = ".mcp.json"
OWN_FILE = Path(".config", "swarm", "mcp.json")
_STATE_FILE = ".claude.json"
"""Claude Code's state file, which holds a person's servers among other data. It can be large."""
_MAX_STATE_BYTES = 256 * 1024 * 1024
_OPENCODE = tuple(reversed(CONFIG_NAMES))
_CONFIGURE = "Configure the server by hand, with `swarm mcp add`."
_SETTINGS = WORKSPACE_SETTINGS[::-1]


@dataclass(frozen=True)
class Configured:
    """The MCP servers that are configured for a workspace."""

    servers: tuple[Server, ...] = ()
    """Servers in force, sorted by name."""
    untrusted: tuple[Server, ...] = ()
    """Servers in the workspace's files that the person has not approved in their current form."""
    grants: tuple[Grant, ...] = ()
    problems: tuple[Problem, ...] = ()
    off: tuple[str, ...] = ()
    """Names that a configuration switches off."""

    def find(self, name: str) -> Server | None:
        """Return the server with that name, or with that key in its tools' names."""
        return next((one for one in self.servers if name in (one.name, one.key)), None)

    @property
    def keys(self) -> frozenset[str]:
        """Keys, as in tool names, of all configured servers, approved or not."""
        return frozenset(one.key for one in (*self.servers, *self.untrusted))


def load_servers(workspace: Path, home: Path, *, trusted: bool = False) -> Configured:
    """Load the servers for a workspace; its own files count only if `trusted`. Never raises."""
    reading = _ServerReader(workspace, home, trusted)
    reading.read_refusals()
    reading.read_state(nearest=True)
    own = {home / name for name in (*_SETTINGS, PROJECT_FILE, ".codex/config.toml", *_OPENCODE)}
    for folder in project_folders(workspace):
        for path, dialect in _files_of(folder, folder / ".codex"):
            if path not in own:
                reading.read_file(path, dialect, "project")
    for path, dialect in [
        (home / OWN_FILE, "claude"),
        *_files_of(home, home / ".codex"),
        *((home / ".config" / "opencode" / name, "opencode") for name in _OPENCODE),
    ]:
        reading.read_file(path, dialect, "user")
    reading.read_state(nearest=False)
    for plugin in load_plugins(workspace, home).counting(trusted=trusted):
        reading.read_plugin(plugin)
    return reading.finish()


def read_plugin_servers(plugin: Plugin, home: Path) -> Configured:
    """Read the servers of one plugin. Never raises."""
    reading = _ServerReader(plugin.folder, home, True)
    reading.read_plugin(plugin)
    return reading.finish()


def _files_of(folder: Path, codex: Path) -> Iterator[tuple[Path, Dialect]]:
    yield folder / PROJECT_FILE, "claude"
    yield from ((folder / name, "claude") for name in _SETTINGS)
    yield from ((folder / name, "opencode") for name in (*(f".opencode/{name}" for name in _OPENCODE), *_OPENCODE))
    yield codex / "config.toml", "codex"


def grant_of(server: Server) -> Grant:
    """Return the grant that a server needs, over its whole configuration."""
    return Grant(text=describe_use(server), source=server.source, content=server.digest)


@dataclass
class _ServerReader:
    workspace: Path
    home: Path
    trusted: bool
    taken: dict[str, Server | None] = field(default_factory=dict)
    """Servers in force, by key; None if the name is switched off."""
    waiting: dict[str, Server] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    refused: dict[str, set[str]] = field(default_factory=lambda: {"any": set(), "project": set()})
    """Names that Claude Code's settings forbid: for any server, and for servers in a project's files."""

    def finish(self) -> Configured:
        servers = tuple(server for server in self.taken.values() if server is not None)
        return Configured(
            servers=tuple(sorted(servers, key=lambda server: server.name))[:MAX_SERVERS],
            untrusted=tuple(self.waiting.values()),
            grants=tuple(dict.fromkeys(self.grants)),
            problems=tuple(self.problems),
            off=tuple(key for key, server in self.taken.items() if server is None),
        )

    def read_refusals(self) -> None:
        """Read the names that settings refuse; a refusal needs no trust."""
        for folder in (*project_folders(self.workspace), self.home):
            for content in (self._load(folder / name, "claude", quiet=True) for name in _SETTINGS):
                names = content.get("disabledMcpjsonServers")
                self.refused["project"] |= (
                    {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
                )
                denied = content.get("deniedMcpServers")
                self.refused["any"] |= {
                    str(one["serverName"]) for one in (denied if isinstance(denied, list) else ())
                    if isinstance(one, Mapping) and "serverName" in one
                }  # fmt: skip

    def read_file(self, path: Path, dialect: Dialect, scope: Scope) -> None:
        key = {"claude": "mcpServers", "codex": "mcp_servers", "opencode": "mcp"}[dialect]
        content = self._load(path, dialect)
        if (
            key not in content
            and path.name == PROJECT_FILE
            and content
            and all(isinstance(v, Mapping) for v in content.values())
        ):
            content = {key: content}  # some files contain the table itself
        table = content.get(key)
        if dialect == "opencode" and isinstance(table, Mapping):
            table = _flatten(table)
        self._take_all(table, path, key, dialect, scope)

    def read_state(self, *, nearest: bool) -> None:
        """Read Claude Code's servers of the person: for this workspace alone, or for all."""
        path = self.home / _STATE_FILE
        content = self._load(path, "claude", most=_MAX_STATE_BYTES)
        if nearest:
            projects = content.get("projects")
            found = projects.get(str(self.workspace)) if isinstance(projects, Mapping) else None
            content = found if isinstance(found, Mapping) else {}
            disabled = content.get("disabledMcpjsonServers")
            self.refused["project"] |= set(map(str, disabled)) if isinstance(disabled, list) else set()
        self._take_all(content.get("mcpServers"), path, "mcpServers", "claude", "user")

    def read_plugin(self, plugin: Plugin) -> None:
        """Read the servers of a plugin, called `plugin:PLUGIN:NAME`; one that runs the same as a server in force is left out."""
        variables = {
            f"CLAUDE_{name}": plugin.in_server(f"${{CLAUDE_{name}}}") for name in ("PLUGIN_ROOT", "PLUGIN_DATA")
        }
        for path, table in plugin.servers:
            for name, entry in list(table.items())[:MAX_SERVERS]:
                if isinstance(entry, Mapping):
                    entry = plugin.in_server(entry)
                    if "${user_config." in json.dumps(entry):
                        self._report(
                            path,
                            f"the MCP server {show(name)} needs values that a person gives (`userConfig`)",
                            _CONFIGURE,
                        )
                        continue
                    if "command" in entry:
                        given = entry.get("env")
                        entry = {**entry, "env": {**variables, **given} if isinstance(given, Mapping) else variables}
                    if any(_is_same(entry, one) for one in self.taken.values() if one is not None):
                        continue
                self._take(f"plugin:{plugin.name}:{name}", entry, path, "claude", "user")

    def _take_all(self, table: Any, path: Path, key: str, dialect: Dialect, scope: Scope) -> None:
        if table is None:
            return
        if not isinstance(table, Mapping):
            self._report(path, f"`{key}` is not a table", "Write a table with an entry for each server.")
            return
        for name, value in list(table.items())[:MAX_SERVERS]:
            if not (
                dialect == "opencode"
                and isinstance(value, Mapping)
                and set(value) <= {"enabled"}
                and value.get("enabled", True)
            ):
                self._take(str(name), value, path, dialect, scope)

    def _take(self, name: str, value: Any, path: Path, dialect: Dialect, scope: Scope) -> None:
        try:
            entry = read_entry(name, value, dialect, scope=scope, source=show_place(path, self.workspace, self.home))
        except Unreadable as error:
            self._report(path, f"the MCP server {show(name)} cannot be used: {error}", "Correct it there.")
            return
        for note in entry.notes:
            self._report(
                path, f"part of the MCP server {show(name)} is not understood: {note}", "The rest of the entry holds."
            )
        server = entry.server
        if server is not None and (
            name in self.refused["any"] or (scope == "project" and name in self.refused["project"])
        ):
            server = None
        key = server.key if server is not None else name
        if server is not None and scope == "project":
            self.grants.append(grant_of(server))
            if not self.trusted:
                self.waiting.setdefault(key, server)
                return
        known = self.taken.setdefault(key, server)
        if known is not None and server is not None and known.name != name:
            self._report(
                path,
                f"the MCP server {show(name)} is hidden by {show(known.name)}: their tools have the same names",
                "Rename one.",
            )

    def _load(self, path: Path, dialect: Dialect, *, most: int | None = None, quiet: bool = False) -> Mapping[str, Any]:
        try:
            if most is not None:
                content = _parse_large(path, most)
            else:
                content = _parse_toml(path) if dialect == "codex" else read_table(path)
        except Unusable as error:
            self.problems.extend([] if quiet else [error.as_problem(path)])
            return {}
        return content if isinstance(content, Mapping) else {}

    def _report(self, path: Path, message: str, remedy: str) -> None:
        self.problems.append(Problem(path=show_path(path), message=message, remedy=remedy))


def _is_same(entry: Mapping[str, Any], server: Server) -> bool:
    """Report whether an entry runs the program, or reaches the URL, of a server."""
    words = [entry.get("command"), *(entry.get("args") or ())] if isinstance(entry.get("args"), list | None) else []
    return entry.get("url") == server.url if server.url else words == [server.command, *server.args]


def _flatten(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return OpenCode's servers by name; its version 2 has them below `servers`, beside general time limits."""
    servers, limits = table.get("servers"), table.get("timeout")
    named = isinstance(servers, Mapping) and not isinstance(servers.get("type"), str)
    general = isinstance(limits, Mapping) and not isinstance(limits.get("type"), str)
    left = {
        key: one
        for key, one in table.items()
        if not (named and key == "servers") and not (general and key == "timeout")
    }
    return {**left, **servers} if named and isinstance(servers, Mapping) else left


def _parse_toml(path: Path) -> Any:
    look_at(path)
    try:
        return tomllib.loads(read_text(path)) if os.path.lexists(path) else {}
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise Unusable(f"it is not valid TOML: {error}", "Correct it there.") from error


def _parse_large(path: Path, most: int) -> Any:
    look_at(path)
    if not os.path.lexists(path):
        return {}
    try:
        if path.stat().st_size > most:
            raise Unusable(f"larger than {most // 2**20} MiB", "No server is read from it.")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}", "Check that it may be read.") from error
    except (ValueError, RecursionError) as error:
        raise Unusable(f"it is not valid JSON: {error}", "No server is read from it.") from error


def may_have(definition: AgentDefinition, server: Server) -> bool:
    """Report whether agents of this type may have tools of the server."""
    prefix = tool_name(server.name, "")
    names = [canonical_tool(split_pattern(entry)[0]) for entry in definition.tools or ()]
    return definition.tools is None or any(
        name == prefix.removesuffix("__") or name.startswith(prefix) or matches_tool(name, f"{prefix}x")
        for name in names
    )


def needed_servers(definition: AgentDefinition, servers: Iterable[Server]) -> list[Server]:
    """Return the servers, of these and its own, without which agents of this type are not started."""
    named = set(map(spell, definition.shared_servers))
    return [one for one in servers if one.key in named or (one.required and may_have(definition, one))] + list(
        definition.servers
    )


def wanted_servers(definition: AgentDefinition) -> list[str]:
    """Return the keys of the servers that a definition names; patterns over several servers do not count."""
    listed = (server_of(split_pattern(entry)[0]) for entry in definition.tools or ())
    names = (*(spell(name) for name in definition.shared_servers), *listed)
    return list(dict.fromkeys(key for key in names if key and not set(key) & set("*?[")))


def explain_absent(definition: AgentDefinition, configured: Configured, unapproved: Iterable[Server] = ()) -> str:
    """Explain which servers a definition wants and does not get, why, and what to do; empty if it gets all.

    `unapproved` are servers that untrusted definitions would add.
    """
    held = {server.key for server in (*configured.servers, *definition.servers)}
    waiting = {server.key: server.source for server in (*unapproved, *configured.untrusted)}
    absent = [key for key in wanted_servers(definition) if key not in held]
    in_files = [f"{key} ({waiting[key]})" for key in absent if key in waiting]
    off = [
        key for key in absent if key not in waiting and any(fnmatchcase(spell(name), key) for name in configured.off)
    ]
    unknown = [key for key in absent if key not in waiting and key not in off]
    parts = [f"not approved: {enumerate_briefly(in_files)}; `swarm trust` approves them"] if in_files else []
    parts += [f"switched off: {enumerate_briefly(off)}"] if off else []
    parts += [f"not configured: {enumerate_briefly(unknown)}; `swarm mcp add` does that"] if unknown else []
    return f"it goes without MCP servers that it names: {'; '.join(parts)}" if parts else ""
