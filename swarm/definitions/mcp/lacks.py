"""Say what this machine lacks to run MCP servers, and the command that installs it. Starts nothing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec

from swarm.core.errors import install_command
from swarm.definitions.mcp.servers import Server

INSTALL = install_command("mcp")
NO_EXTRA = f"nothing here speaks with MCP servers; run: {INSTALL}"
_GET: Mapping[str, str] = {
    **dict.fromkeys(("uv", "uvx"), "; run: pip install uv"),
    **dict.fromkeys(("node", "npm", "npx"), "; install Node.js"),
    "docker": "; install Docker",
}


@cache
def has_extra() -> bool:
    """Report whether the protocol's SDK was installed when this process first asked; imports nothing of it."""
    return find_spec("mcp") is not None and find_spec("mcp_types") is not None


def find_lack(server: Server) -> str:
    """Say why a server cannot be run on this machine, and the remedy; empty if nothing is known to be missing."""
    if not has_extra():
        return NO_EXTRA
    if server.transport != "stdio" or "$" in server.command or "PATH" in server.env or shutil.which(server.command):
        return ""
    return f"the program {server.command!r} is not on the PATH{_GET.get(server.command, '')}"
