"""The tools that found and dissolve a job's team."""

from __future__ import annotations

from typing import Any

from swarm.errors import ToolError
from swarm.tools import Team, Tool, ToolContext, ToolResult


def team_tools() -> dict[str, Tool]:
    """Both, by name."""
    return {tool.name: tool for tool in (TEAM_CREATE, TEAM_DELETE)}


def _team(context: ToolContext) -> Team:
    if context.team is None:
        raise ToolError("There are no teams here.")
    return context.team


def _create(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_team(context).create_team(context.tool_use_id, given["name"], given.get("description", "")))


def _delete(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_team(context).delete_team(context.tool_use_id, force=bool(given.get("force"))))


TEAM_CREATE = Tool(
    name="TeamCreate",
    description=(
        "Found a team that you lead, for work on which several agents stay together, write to each other and share a task "
        "board. Then put the tasks on the board (BoardAdd) and start the teammates (Agent with teammate, name and role). Idle "
        "teammates are offered tasks that fit them by themselves. At the end ask each with a shutdown_request to leave, then TeamDelete."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Letters, digits, '-', '_', '.'."},
            "description": {"type": "string", "description": "What the team is for."},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    run=_create,
    # The same call again finds the team that it founded.
    effects=False,
    activity=lambda given: f"TeamCreate {given.get('name', '')}",
)

TEAM_DELETE = Tool(
    name="TeamDelete",
    description="Dissolve your team. Idle teammates are stopped; while any is at work it is refused. Board and scratchpad stay.",
    input_schema={
        "type": "object",
        "properties": {
            "force": {"type": "boolean", "description": "Stop teammates that are at work too; their tasks go back."}
        },
        "additionalProperties": False,
    },
    run=_delete,
    effects=False,
    activity=lambda given: "TeamDelete",
)
