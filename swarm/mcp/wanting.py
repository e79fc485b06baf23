"""What a definition wants of MCP servers, and which of that is not there: said in one line, where a person looks."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from swarm.definitions.model import AgentDefinition
from swarm.definitions.names import split_pattern
from swarm.definitions.sources import enumerate_briefly
from swarm.mcp.reading import Configured
from swarm.mcp.servers import Server, server_of, spell


def wanted_servers(definition: AgentDefinition) -> list[str]:
    """The servers that it names, by the part that their tools' names have of them; patterns of many servers name none."""
    listed = (server_of(split_pattern(entry)[0]) for entry in definition.tools or ())
    names = (*(spell(name) for name in definition.shared_servers), *listed)
    return list(dict.fromkeys(key for key in names if key and not set(key) & set("*?[")))


def explain_absent(definition: AgentDefinition, configured: Configured, unapproved: Iterable[Server] = ()) -> str:
    """Which servers it wants and does not get, why, and what to do; empty if it gets all of them.

    `unapproved` are those that definitions would bring along.
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
