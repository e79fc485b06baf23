"""Follow a server that changes its tools while an agent lives: the tools of its requests from its next turn on.

New tools come at the end of the agent's list, so that nothing before them changes. If the agent can search for tools, they are deferred,
and the prompt cache keeps its whole prefix. Tools that are gone stay in the list for the same reason; a note tells of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from swarm.agent.entries import Prompt, Redefined
from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.capabilities.mcp.messages import explain_change
from swarm.capabilities.mcp.pins import Pin
from swarm.capabilities.mcp.server_tools import TOOL_SEARCH, ServerTool, must_defer
from swarm.core.plain import clean
from swarm.definitions.mcp.servers import Server, server_of


class ToolChange(NamedTuple):
    """A server's changed offer, and those of its tools that the agent may have."""

    server: Server
    pin: Pin
    tools: Sequence[ServerTool]


def adopt(history: History, spec: AgentSpec, changes: Sequence[ToolChange], room: int) -> list[Redefined | Prompt]:
    """Return the entries with which the agent follows the changes. Pure; `room` is the model's context in tokens."""
    tools, offers, kinds, notes = list(history.tools), dict(history.offers), dict(history.kinds), []
    for server, pin, offered in changes:
        known = {tool["name"]: tool for tool in tools}
        new = [tool for tool in offered if tool.name not in known]
        tools += _schemas(new, known, server, room)
        listed = {tool.called for tool in pin.tools if not tool.gone}
        gone = [name for name in known if server_of(name) == server.key and name not in listed]
        other = {
            tool.name: json.dumps(tool.input_schema, ensure_ascii=False)
            for tool in offered
            if tool.name in known and known[tool.name]["input_schema"] != clean(tool.input_schema)
        }
        offers[server.key] = pin.offer
        kinds |= {tool.name: tool.pinned.kind for tool in new if tool.pinned.kind != "effect"}
        if new or gone or other:
            search = TOOL_SEARCH.name if any(tool["name"] == TOOL_SEARCH.name for tool in tools) else ""
            notes.append(explain_change(server.name, [tool.name for tool in new], gone, other, search))
    system = history.system
    redefined = Redefined(spec=spec, system=system, tools=clean(tools), kinds=kinds, offers=offers)
    return [redefined, *([Prompt(text="\n\n".join(notes))] if notes else [])]


def _schemas(new: Sequence[ServerTool], known: dict[str, Any], server: Server, room: int) -> list[dict[str, Any]]:
    schemas = [tool.schema() for tool in new]
    searches = TOOL_SEARCH.name in known
    if server.always_load or not (searches or must_defer(schemas, room)):
        return schemas
    return [*([] if searches else [TOOL_SEARCH.schema()]), *({**schema, "defer_loading": True} for schema in schemas)]
