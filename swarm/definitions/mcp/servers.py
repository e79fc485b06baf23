"""The configuration of one MCP server from any file; pure data that travels with a job.

A `${NAME}` stays as written until a worker starts the server. That worker expands it (`expand`) with the variables that it allows
servers to have. So a job carries no secret, and a person approves the text that they saw.
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
from swarm.core.formats import Formatted
from swarm.core.settings import Settings
from swarm.core.tags import split_tags
from swarm.definitions.plugins.words import DATA, FOLDERS

Transport = Literal["stdio", "http", "sse"]
"""A process with pipes, one URL for requests (streamable HTTP), or its older form with two URLs."""
Scope = Literal["project", "user", "definition"]
"""Origin of the entry: a workspace's file, the person's, or the only definition that has the server."""

Approval = Literal["ask", "allow", "auto"]
"""A call needs an approval, is allowed, or is judged by mode and rules as any other call."""

PREFIX = "mcp__"
MAX_NAME = 64
"""Maximum length of a tool's name as the model sees it."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class OAuth(BaseModel):
    """OAuth settings of a server. Only a person's login reads them, so they do not travel with jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    client_id: str = ""
    """Id of a client that is already registered; if empty, the first login registers one."""
    client_secret: str = Field(default="", repr=False)
    issuer: str = ""
    """Authorisation server of this client; no other receives the secret. Empty: the one that the server names."""
    scope: str = ""
    """Requested scopes, separated by spaces; empty: the server's default."""
    callback_port: int = Field(default=0, ge=0, le=65_535)
    """Local port to which the browser returns; 0: any free port."""
    off: bool = False
    """Never log in to the server."""


class Server(BaseModel):
    """A server's configuration. All durations are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100)
    transport: Transport
    command: str = ""
    """The program of a `stdio` server."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Variables that are added to a clean environment."""
    cwd: str = ""
    """The process's folder, relative to the workspace; empty: the workspace."""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuth | None = Field(default=None, exclude=True)
    start_seconds: float = Field(default=30.0, gt=0)
    call_seconds: float = Field(default=120.0, gt=0)
    tools: tuple[str, ...] | None = None
    """Patterns of the offered tools, by the server's own names; None: all."""
    without: tuple[str, ...] = ()
    """Patterns of tools that are never offered."""
    approvals: dict[str, Approval] = {}
    """Approval of calls, by the tool's own name; `*` is every tool that is not named."""
    required: bool = False
    """The job fails if the server does not start, instead of continuing without."""
    always_load: bool = False
    """The model gets the schemas of all tools at once, however many there are."""
    scope: Scope = "user"
    source: str = ""
    """The file's path, as shown to people. Neither `source` nor `scope` is part of the digest."""

    @property
    def key(self) -> str:
        """The server's name within the names of its tools: `mcp__KEY__tool`."""
        return spell(self.name)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the whole configuration; approvals and shared processes are keyed by it."""
        data = self.model_dump(mode="json", exclude={"scope", "source"})
        data |= {"oauth": self.oauth.model_dump(mode="json")} if self.oauth is not None else {}
        return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def variables(self) -> dict[str, str | None]:
        """The worker's variables that the server uses, besides plugins' folders, with their defaults; None if there is none."""
        found: dict[str, str | None] = {}
        for match in (match for text in self._texts() for match in _VARIABLE.finditer(text)):
            name, default = match[1], match[2]
            if name not in (FOLDERS, DATA):
                found[name] = default if found.get(name, default) is not None else None
        return found

    @property
    def needed_variables(self) -> list[str]:
        """Variables without a default."""
        return [name for name, default in self.variables.items() if default is None]

    def offers(self, tool: str) -> bool:
        """Report whether the configuration offers the tool, given the server's own name for it."""
        wanted = self.tools is None or any(fnmatch.fnmatchcase(tool, pattern) for pattern in self.tools)
        return wanted and not any(fnmatch.fnmatchcase(tool, pattern) for pattern in self.without)

    def describe(self) -> str:
        """Describe the server in one line: program and arguments, or URL, with variables as written."""
        return " ".join((self.command, *self.args)) if self.transport == "stdio" else self.url

    def _texts(self) -> Iterator[str]:
        yield from (self.command, *self.args, *self.env.values(), self.cwd, self.url, *self.headers.values())


class JobServers(Formatted):
    """The document `servers` of a job: the MCP servers that its agents may have, as they were at submission."""

    model_config = ConfigDict(frozen=True)

    servers: list[Server] = []


class MissingVariables(ConfigurationError):
    """A server needs variables that the worker does not have or does not allow servers to have."""

    def __init__(self, server: str, absent: Sequence[str], withheld: Sequence[str]) -> None:
        self.server, self.absent, self.withheld = server, absent, withheld
        reasons = [f"{', '.join(absent)} not set in the worker's environment"] if absent else []
        if withheld:
            reasons.append(f"{', '.join(withheld)} not allowed for servers by SWARM_MCP_ENV")
        super().__init__(f"the MCP server {server!r} cannot be started: {'; '.join(reasons)}")


def expand(server: Server, environment: Mapping[str, str], allowed: Sequence[str]) -> Server:
    """Replace every `${NAME}` and `${NAME:-default}` of a server. `allowed` are names or patterns of names.

    An empty variable counts as set, unless there is a default. Raises `MissingVariables`. The result has another digest: a server is
    identified by its digest before expansion, and the result is neither stored nor shown.
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
    """Describe a server for a person's approval: its program or URL, variables and headers, as written."""
    what = "start the MCP server" if server.transport == "stdio" else "speak with the MCP server"
    given = [f"{name}={value}" for name, value in (*server.env.items(), *server.headers.items())]
    given += [f"the folder {server.cwd}"] if server.cwd else []
    return f"{what} {server.name}: {server.describe()}" + (f" (with {', '.join(given)})" if given else "")


def spell(name: str) -> str:
    """Spell a server's name in the letters of tool names, without double underscores."""
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name)).strip("_") or "server"


def server_keys(settings: Settings) -> list[str]:
    """Return the keys of the servers that a worker has by its settings."""
    return [spell(name) for name in split_tags(settings.mcp_servers)]


def tool_name(server: str, tool: str) -> str:
    """Return the model's name of a tool: `mcp__server__tool`. A long name is cut and ends with part of its hash."""
    return _fit_name(f"{PREFIX}{spell(server)}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}")


def _fit_name(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def spellings(entry: str) -> Iterator[str]:
    """Yield the names, or patterns, of tools that an entry `mcp__SERVER__TOOL` can mean, whatever letters the server's own name has.

    `mcp__a__b` is the tool `b` of the server `a`, or every tool of a server `a__b`.
    """
    yield entry
    parts = entry.removeprefix(PREFIX).split("__")
    for count in range(1, len(parts) + 1):
        server, tool = _spell_pattern("__".join(parts[:count])), "__".join(parts[count:])
        if not server.strip("_*?"):
            continue
        for each in dict.fromkeys((tool, tool.lstrip("_"))):
            name = f"{PREFIX}{server}__{re.sub(r'[^A-Za-z0-9_*?-]', '_', each)}" if each else f"{PREFIX}{server}"
            yield _fit_name(name) if each and "*" not in name else name


def _spell_pattern(name: str) -> str:
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_*?-]", "_", name)).strip("_")


def server_of(name: str) -> str:
    """Return the server's key in a tool's name or pattern (`mcp__github__list`, `mcp__github`); empty for other tools."""
    return name.removeprefix(PREFIX).split("__", 1)[0] if name.startswith(PREFIX) else ""
