"""External tools by the Model Context Protocol: a job's servers and the client side of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.core.capabilities import Capability, StepRow

if TYPE_CHECKING:
    from swarm.definitions.tools import ToolRow


def _tools() -> tuple[ToolRow, ...]:
    from swarm.definitions.tools import Kind, ToolRow

    # fmt: off
    return (
        ToolRow("ToolSearch", Kind.LOOK, "swarm.capabilities.mcp.server_tools:TOOL_SEARCH", "query", internal=True, needs="servers"),
        ToolRow("ListMcpResources", Kind.LOOK, "swarm.capabilities.mcp.server_tools:LIST_RESOURCES", "server", "value", internal=True,
                needs="servers", server="server",
                aliases="listmcpresourcestool"),
        ToolRow("ReadMcpResource", Kind.LOOK, "swarm.capabilities.mcp.server_tools:READ_RESOURCE", "uri", "value", network=True,
                needs="servers", server="server",
                aliases="readmcpresourcetool"),
        ToolRow("ListMcpPrompts", Kind.LOOK, "swarm.capabilities.mcp.server_tools:LIST_PROMPTS", "server", "value", internal=True,
                needs="servers", server="server"),
        ToolRow("GetMcpPrompt", Kind.LOOK, "swarm.capabilities.mcp.server_tools:GET_PROMPT", "name", "value", network=True,
                needs="servers", server="server"),
    )
    # fmt: on


CAPABILITY = Capability(
    steps=(StepRow("mcp", "swarm.capabilities.mcp.step:Servers", ("spec.definition.names_servers",), "servers"),),
    tools=_tools,
    worker="swarm.capabilities.mcp.host:ServersOfWorker",
    commands={"Agents": {"mcp": "mcp:mcp"}},
    panels="swarm.web.panels.servers:PANELS",
)
