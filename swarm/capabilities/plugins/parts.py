"""List the parts of one plugin for people; each is read by the reader that jobs use."""

from __future__ import annotations

from pathlib import Path

from swarm.core.capabilities import capabilities, load
from swarm.definitions.catalogue import read_plugin_agents
from swarm.definitions.mcp.reader import read_plugin_servers
from swarm.definitions.plugins.model import Brought, Plugin
from swarm.definitions.sources import enumerate_briefly


def list_parts(plugin: Plugin) -> Brought:
    """List the parts of a plugin; never raises because of a file's content."""
    results = read_plugin_agents(plugin)
    agents = [one.name for result in results for one in result.definitions]
    configured = read_plugin_servers(plugin, Path.home())
    found = [
        Brought({"agents": agents}, [problem for result in results for problem in result.problems]),
        *(load(one.brought)(plugin) for one in capabilities().values() if one.brought),
        Brought(
            {"servers": [server.name for server in configured.servers]},
            configured.problems,
            [server.describe() for server in configured.servers],
        ),
    ]
    return Brought(
        {kind: names for one in found for kind, names in one.names.items()},
        [*plugin.problems, *(problem for one in found for problem in one.problems)],
        list(dict.fromkeys(program for one in found for program in one.runs)),
    )


def count_parts(parts: Brought) -> str:
    """Count the parts by kind, in words."""
    counts = [f"{len(names)} {kind if len(names) > 1 else kind[:-1]}" for kind, names in parts.names.items() if names]
    return enumerate_briefly(counts) or "nothing that is used here"
