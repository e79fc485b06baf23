"""The panel of a job's MCP servers."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from swarm.capabilities.mcp.pins import Pin, Pins
from swarm.client.swarm import Swarm
from swarm.definitions.mcp.servers import JobServers, Server
from swarm.web.panels.panel import Panel


def read_servers(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Read the servers that travel with a job, and the used servers of its types of agents."""
    pins = Pins(swarm.store.keyspace, job_id).load()
    shown = []
    for server in _configured(swarm, job_id):
        pin = pins.pop(server.key, None)
        about = {"name": server.name, "what": server.describe(), "source": server.source, "transport": server.transport}
        shown.append({**about, "offer": None if pin is None else _show(pin)})
    own = [
        {"name": pin.server, "what": "", "source": "of a type of agent", "transport": "", "offer": _show(pin)}
        for pin in pins.values()
    ]
    return {"servers": [*shown, *own]}


def _configured(swarm: Swarm, job_id: str) -> list[Server]:
    digest = swarm.store.jobs.carried(job_id).get("servers", "")
    try:
        return list(JobServers.model_validate_json(swarm.store.jobs.document(digest) or "").servers) if digest else []
    except ValidationError:
        return []


def _show(pin: Pin) -> dict[str, Any]:
    tools = [tool.model_dump(include={"name", "called", "description", "kind"}) for tool in pin.tools if not tool.gone]
    return {"tools": tools, "resources": pin.resources, "prompts": pin.prompts, "left_out": list(pin.left_out)}


PANELS = (
    Panel(
        "servers",
        "MCP servers",
        lambda asked: read_servers(asked.swarm, asked.job_id),
        stale_on=frozenset({"spawned", "server", "ended"}),
    ),
)
