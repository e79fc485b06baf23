"""swarm: a tree of LLM agents that runs on a fleet.

The public names are loaded when they are first used, so that `import swarm` costs nothing.
"""

from __future__ import annotations

import os.path
from importlib import import_module
from typing import TYPE_CHECKING, Any

if os.path.isfile(os.path.join(os.path.dirname(__file__), "tasks")):
    # `tasks` and `mailbox` are links to the folders at the top of the repository; Git wrote text files instead.
    raise ImportError("this checkout has no symbolic links; clone it again with `git clone -c core.symlinks=true`")

if TYPE_CHECKING:
    from swarm.agent.spec import Limits
    from swarm.capabilities.mapping.maps import LineResult, MapView
    from swarm.client.canvas import signature
    from swarm.client.event_feed import stream
    from swarm.client.maps import Map
    from swarm.client.swarm import Job, Swarm
    from swarm.core.errors import JobFailed, SwarmError, ToolError
    from swarm.core.records import AgentView, Event, JobView
    from swarm.core.settings import Settings
    from swarm.definitions.model import AgentDefinition
    from swarm.definitions.own.context import ToolContext
    from swarm.definitions.own.declaration import tool
    from swarm.definitions.own.results import ToolImage
    from swarm.definitions.own.workflow import workflow
    from swarm.streaming.events import StreamEvent
    from swarm.workflows.flow import Flow

__all__ = [
    "AgentDefinition",
    "AgentView",
    "Event",
    "Flow",
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
    "workflow",
]

_HOMES = {
    "AgentDefinition": "swarm.definitions.model",
    "AgentView": "swarm.core.records",
    "Event": "swarm.core.records",
    "Flow": "swarm.workflows.flow",
    "Job": "swarm.client.swarm",
    "JobFailed": "swarm.core.errors",
    "JobView": "swarm.core.records",
    "Limits": "swarm.agent.spec",
    "LineResult": "swarm.capabilities.mapping.maps",
    "Map": "swarm.client.maps",
    "MapView": "swarm.capabilities.mapping.maps",
    "Settings": "swarm.core.settings",
    "StreamEvent": "swarm.streaming.events",
    "signature": "swarm.client.canvas",
    "stream": "swarm.client.event_feed",
    "Swarm": "swarm.client.swarm",
    "SwarmError": "swarm.core.errors",
    "ToolContext": "swarm.definitions.own.context",
    "ToolError": "swarm.core.errors",
    "ToolImage": "swarm.definitions.own.results",
    "tool": "swarm.definitions.own.declaration",
    "workflow": "swarm.definitions.own.workflow",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("swarm.core.release").VERSION
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'swarm' has no attribute {name!r}")
    return getattr(import_module(home), name)
