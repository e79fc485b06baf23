"""A tool from outside the package, in one folder and one row: it asks a server on the network."""

from __future__ import annotations

import urllib.request
from typing import Any

from swarm.definitions.tools import Kind, ToolRow
from swarm.tools import Tool, ToolContext, ToolResult

TOOLS = [
    ToolRow(
        "Weather", Kind.LOOK, "weather:WEATHER", "url", "domain", network=True, timeout_seconds=10, aliases="getweather"
    )
]


def _ask(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    with urllib.request.urlopen(given["url"], timeout=10) as answer:
        return ToolResult(text=answer.read().decode())


WEATHER = Tool(
    "Weather",
    "Tell the weather, as the server at `url` sees it.",
    {"url": {"type": "string", "description": "Address of the server."}},
    ["url"],
    run=_ask,
)
