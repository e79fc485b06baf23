"""swarm: a tree of LLM agents that runs on a fleet.

The public names are loaded when they are first used, so that `import swarm` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm.agent.spec import Limits
    from swarm.canvas import signature
    from swarm.client import Job, Swarm
    from swarm.definitions.model import AgentDefinition
    from swarm.errors import JobFailed, SwarmError, ToolError
    from swarm.mapping.maps import LineResult, MapView
    from swarm.maps import Map
    from swarm.own.context import ToolContext
    from swarm.own.declaration import tool
    from swarm.own.results import ToolImage
    from swarm.records import AgentView, Event, JobView
    from swarm.settings import Settings
    from swarm.streaming.events import StreamEvent
    from swarm.streaming.telling import stream

__all__ = [
    "AgentDefinition",
    "AgentView",
    "Event",
    "Job",
    "JobFailed",
    "JobView",
    "Limits",
    "LineResult",
    "Map",
    "MapView",
    "Settings",
    "StreamEvent",
    "Swarm",
    "SwarmError",
    "ToolContext",
    "ToolError",
    "ToolImage",
    "signature",
    "stream",
    "tool",
]

_HOMES = {
    "AgentDefinition": "swarm.definitions.model",
    "AgentView": "swarm.records",
    "Event": "swarm.records",
    "Job": "swarm.client",
    "JobFailed": "swarm.errors",
    "JobView": "swarm.records",
    "Limits": "swarm.agent.spec",
    "LineResult": "swarm.mapping.maps",
    "Map": "swarm.maps",
    "MapView": "swarm.mapping.maps",
    "Settings": "swarm.settings",
    "StreamEvent": "swarm.streaming.events",
    "signature": "swarm.canvas",
    "stream": "swarm.streaming.telling",
    "Swarm": "swarm.client",
    "SwarmError": "swarm.errors",
    "ToolContext": "swarm.own.context",
    "ToolError": "swarm.errors",
    "ToolImage": "swarm.own.results",
    "tool": "swarm.own.declaration",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("celery-swarm")
        except PackageNotFoundError:
            return "0+unknown"
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'swarm' has no attribute {name!r}")
    return getattr(import_module(home), name)
