"""One MCP server as it is configured, whatever file said so; pure data that travels with a job.

A `${NAME}` stays as it was written until the worker that starts the server expands it (`expand`) with the variables that worker
is willing to give away: what a job carries holds no secret, and the approval of a configuration is of the text that a person saw.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.core.tags import split_tags

Transport = Literal["stdio", "http", "sse"]
"""A process that is spoken with over its pipes; one URL that takes requests (streamable HTTP); its older form with two."""
Scope = Literal["project", "user", "definition"]
"""Whose file said so: the workspace's, the person's own, or that of the definition which has the server to itself."""

Approval = Literal["ask", "allow", "auto"]
"""A call is asked about, or allowed, or judged as any other by mode and rules."""

PREFIX = "mcp__"
MAX_NAME = 64
"""Of a tool's name as the model is given it."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class OAuth(BaseModel):
    """What a configuration says of logging in; read only where a person does that, so it does not travel with jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    client_id: str = ""
    """Of a client that is registered with the authorisation server already; empty: one is registered by the first login."""
    client_secret: str = Field(default="", repr=False)
    issuer: str = ""
    """The authorisation server that these are of: no other is shown the secret. Empty: whichever the server names."""
    scope: str = ""
    """What is asked for, parted by spaces; empty: what the server says."""
    callback_port: int = Field(default=0, ge=0, le=65_535)
    """Of this machine, where the browser comes back to; 0: any that is free."""
    off: bool = False
    """The server is never logged in to."""


class Server(BaseModel):
    """A server's configuration. All durations are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100)
    transport: Transport
    command: str = ""
    """Of a process: the program …"""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """… and what is added to a clean environment …"""
    cwd: str = ""
    """… and where it runs: relative to the workspace, which it is if this is empty."""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuth | None = Field(default=None, exclude=True)
    start_seconds: float = Field(default=30.0, gt=0)
    call_seconds: float = Field(default=120.0, gt=0)
    tools: tuple[str, ...] | None = None
    """Patterns of the tools, by the server's own names, that are offered; None: all …"""
    without: tuple[str, ...] = ()
    """… and of those that never are."""
    approvals: dict[str, Approval] = {}
    """What the configuration says of calls, by the tool's own name; `*` is every tool that is not named."""
    required: bool = False
    """A job whose server does not start has failed, instead of going on without."""
    always_load: bool = False
    """Its tools' schemas are given at once, however many there are."""
    scope: Scope = "user"
    source: str = ""
    """The file that it was read from, as a person is shown it. Neither this nor `scope` is part of the digest."""

    @property
    def key(self) -> str:
        """Its name within the names of its tools: `mcp__KEY__tool`."""
        return spell(self.name)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that says what is run, reached and offered: what an approval is of, and what may be shared."""
        data = self.model_dump(mode="json", exclude={"scope", "source"})
        data |= {"oauth": self.oauth.model_dump(mode="json")} if self.oauth is not None else {}
        return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def variables(self) -> dict[str, str | None]:
        """The variables that it wants of the worker, with their default, or None if it needs them."""
        found: dict[str, str | None] = {}
        for match in (match for text in self._texts() for match in _VARIABLE.finditer(text)):
            name, default = match[1], match[2]
            found[name] = default if found.get(name, default) is not None else None
        return found

    @property
    def needed_variables(self) -> list[str]:
        """Those without a default."""
        return [name for name, default in self.variables.items() if default is None]

    def offers(self, tool: str) -> bool:
        """Whether the tool, by the server's own name for it, is one that the configuration lets agents have."""
        wanted = self.tools is None or any(fnmatch.fnmatchcase(tool, pattern) for pattern in self.tools)
        return wanted and not any(fnmatch.fnmatchcase(tool, pattern) for pattern in self.without)

    def describe(self) -> str:
        """What it is, in a line: its program and arguments, or its URL. Variables are shown as they are written."""
        return " ".join((self.command, *self.args)) if self.transport == "stdio" else self.url

    def _texts(self) -> Iterator[str]:
        yield from (self.command, *self.args, *self.env.values(), self.cwd, self.url, *self.headers.values())


class JobServers(BaseModel):
    """The document `servers` that travels with a job: what its agents may have, pinned as it was when the job was submitted."""

    model_config = ConfigDict(frozen=True)

    v: Literal[1] = 1
    servers: list[Server] = []


class MissingVariables(ConfigurationError):
    """A server wants variables that the worker does not have, or does not give away."""

    def __init__(self, server: str, absent: Sequence[str], withheld: Sequence[str]) -> None:
        self.server, self.absent, self.withheld = server, absent, withheld
        reasons = [f"{', '.join(absent)} not set in the worker's environment"] if absent else []
        if withheld:
            reasons.append(f"{', '.join(withheld)} not among those that SWARM_MCP_ENV lets servers have")
        super().__init__(f"the MCP server {server!r} cannot be started: {'; '.join(reasons)}")


def expand(server: Server, environment: Mapping[str, str], allowed: Sequence[str]) -> Server:
    """The server with every `${NAME}` and `${NAME:-default}` replaced. `allowed` are names, or patterns of names.

    An empty variable counts as set, unless there is a default. Raises `MissingVariables`. The result's digest is another: a server is
    identified by what it was before, and the result is neither stored nor shown.
    """
    absent: list[str] = []
    withheld: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        value = environment.get(name)
        permitted = any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed)
        if permitted and value is not None and (value or default is None):
            return value
        if default is None:
            (absent if value is None else withheld).append(name)
        return default or ""

    def fill(text: str) -> str:
        return _VARIABLE.sub(replace, text)

    filled = server.model_copy(update=_fill_all(server, fill))
    if absent or withheld:
        raise MissingVariables(server.name, list(dict.fromkeys(absent)), list(dict.fromkeys(withheld)))
    return filled


def _fill_all(server: Server, fill: Callable[[str], str]) -> dict[str, object]:
    return {
        "command": fill(server.command),
        "args": tuple(fill(arg) for arg in server.args),
        "env": {name: fill(value) for name, value in server.env.items()},
        "cwd": fill(server.cwd),
        "url": fill(server.url),
        "headers": {name: fill(value) for name, value in server.headers.items()},
    }


def describe_use(server: Server) -> str:
    """What a person approves: the program or address, and what it is given besides, as it is written."""
    what = "start the MCP server" if server.transport == "stdio" else "speak with the MCP server"
    given = [f"{name}={value}" for name, value in (*server.env.items(), *server.headers.items())]
    given += [f"the folder {server.cwd}"] if server.cwd else []
    return f"{what} {server.name}: {server.describe()}" + (f" (with {', '.join(given)})" if given else "")


def spell(name: str) -> str:
    """A server's name in the letters that a tool's name may have, without the two underscores that end it there."""
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name)).strip("_") or "server"


def server_keys(settings: Settings) -> list[str]:
    """The keys of the servers that a worker says it has."""
    return [spell(name) for name in split_tags(settings.mcp_servers)]


def tool_name(server: str, tool: str) -> str:
    """What the model calls a tool: `mcp__server__tool`. A long one is cut, with letters of its hash, so that it stays its own."""
    name = f"{PREFIX}{spell(server)}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def server_of(name: str) -> str:
    """The key of the server in a name or pattern of tools (`mcp__github__list`, `mcp__github`); empty if it is no such name."""
    return name.removeprefix(PREFIX).split("__", 1)[0] if name.startswith(PREFIX) else ""
