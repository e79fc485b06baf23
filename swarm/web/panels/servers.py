"""The panel of MCP servers: which a job has, and what those whose tools were asked for offer."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from swarm.client import Swarm
from swarm.mcp.pins import Pin, Pins
from swarm.mcp.servers import JobServers, Server


def read_servers(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """The servers that travel with a job, and those that its types of agents bring along as far as they were used."""
    pins = Pins(swarm.store, job_id).load()
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
    digest = swarm.store.carried(job_id).get("servers", "")
    try:
        return list(JobServers.model_validate_json(swarm.store.document(digest) or "").servers) if digest else []
    except ValidationError:
        return []


def _show(pin: Pin) -> dict[str, Any]:
    tools = [tool.model_dump(include={"name", "called", "description", "kind"}) for tool in pin.tools]
    return {"tools": tools, "resources": pin.resources, "prompts": pin.prompts, "left_out": list(pin.left_out)}
