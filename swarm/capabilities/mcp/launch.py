"""Start a server for an agent: its key, which decides who shares it, and its launch for the broker.

A process has the sandbox of the agent's commands and a HOME of its own. Its environment holds the worker's variables that programs need,
and those that its configuration names. Agents of one job share it on a host if they work in the same folders with the same rights.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm.capabilities.mcp.places import HOMES
from swarm.core.errors import ToolError
from swarm.definitions.mcp.servers import Server, expand
from swarm.definitions.plugins.words import DATA, FOLDERS
from swarm.tools import Hold, ToolContext
from swarm.tools.environment import clean_environment
from swarm.workspace.private import make_private_folder

_ENTER = ("/bin/sh", "-c", 'cd "$0" && exec "$@"')
_PROJECTS = ("package.json", "pyproject.toml", "node_modules", "pyvenv.cfg", "go.mod", "Cargo.toml")
"""Entries that mark the root folder of a program."""

_REMEDY = "set TMPDIR to another folder"

Confining = Callable[[Hold, list[str]], list[str]]
FindLogin = Callable[[str], dict[str, Any] | None]
"""Return what a broker needs for the login at an address (`swarm.capabilities.mcp.logins.way_to`), or None."""


@dataclass(frozen=True)
class Profile:
    """What distinguishes processes of one server that are not shared."""

    job_id: str
    agent_id: str
    """The agent, for a server that one definition has to itself; else empty."""
    workspace: str
    folders: tuple[str, ...]
    read_only: bool
    network: bool

    def key_for(self, server: Server) -> str:
        """The name of the one process or connection that serves all agents of this profile on this host."""
        mine: list[Any] = [self.job_id, self.agent_id, server.digest]
        if server.transport == "stdio":
            mine += [self.workspace, self.folders, self.read_only, self.network]
        return hashlib.sha256(json.dumps(mine).encode()).hexdigest()[:24]


def describe_launch(
    server: Server,
    profile: Profile,
    confine: Confining | None,
    folder: Path,
    allowed: list[str],
    network_off: bool,
    find_login: FindLogin,
    plugins: str = "",
) -> dict[str, Any]:
    """Describe a server for the broker to start or to connect to.

    `confine` puts a command into the sandbox; None: there is no sandbox. `plugins` is the folder of the
    job's plugins, if it has any. Raises `ToolError`, `MissingVariables`.
    """
    home = _home_of_next(folder)
    known = {FOLDERS: plugins, DATA: str(home / ".plugins")} if plugins else {}
    filled = expand(server, {**os.environ, **known}, [*allowed, *known])
    launch = {
        "transport": server.transport,
        "name": server.name,
        "job": profile.job_id,
        "owner": profile.agent_id,
        "workspace": profile.workspace,
        "start_seconds": server.start_seconds,
        "roots": [profile.workspace, *profile.folders],
    }
    if server.transport != "stdio":
        if network_off:
            raise ToolError("this worker gives agents no network (SWARM_NETWORK=off)")
        return {**launch, "url": filled.url, "headers": filled.headers, "login": find_login(filled.url)}
    environment = clean_environment(os.environ) | filled.env
    program = shutil.which(filled.command, path=environment.get("PATH"))
    if program is None:
        raise ToolError(f"the program {filled.command!r} is not on the PATH of the worker's host")
    make_private_folder(home, remedy=_REMEDY)
    (home / ".plugins").mkdir()
    hold = Hold(
        readable=tuple(_program_folders([program, *filled.args])), home=home, network=profile.network, needed=False
    )
    place = (Path(profile.workspace) / filled.cwd).resolve()
    if not place.is_dir():
        raise ToolError(f"the folder {place} that it must run in does not exist")
    # The sandbox starts commands in the workspace.
    argv = [*((*_ENTER, str(place)) if filled.cwd else ()), program, *filled.args]
    if confine is not None:
        argv = confine(hold, argv)
    return {**launch, "argv": argv, "env": {**environment, "TMPDIR": str(home)}, "cwd": str(place), "home": str(home)}


def _home_of_next(folder: Path) -> Path:
    """Name a new HOME for a server; the broker removes it with the server."""
    homes = make_private_folder(folder / HOMES, remedy=_REMEDY)
    return homes.resolve() / secrets.token_hex(6)


def _program_folders(argv: list[str]) -> Iterator[Path]:
    """Yield the folders that a server's program needs to run. Never a home, or a folder that holds one."""
    home = Path.home().resolve()
    for word in argv:
        if not os.path.isabs(word) or not os.path.isfile(word):
            continue
        for file in dict.fromkeys((Path(word), Path(word).resolve())):
            found = next((one for one in file.parents if any((one / name).exists() for name in _PROJECTS)), file.parent)
            yield file if home.is_relative_to(found) else found


def profile_of(context: ToolContext, server: Server, *, read_only: bool) -> Profile:
    """Return the profile of a server's process for an agent."""
    own = server.scope == "definition"
    return Profile(
        job_id=context.job_id,
        agent_id=context.agent_id if own else "",
        workspace=context.spec.workspace,
        folders=tuple(map(str, context.folders)),
        read_only=read_only,
        network=context.spec.network,
    )
