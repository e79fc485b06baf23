"""The tools that found and dissolve a job's team."""

from __future__ import annotations

from typing import Any

from swarm.capabilities.team.teams import Teams
from swarm.core.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.schemas import boolean, choice, string

MAX_MEMBERS = 20


def _create(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    if context.spec.parent_id is not None:
        # Agents started by the first agent are below it, and teams do not nest. A fork has its parent's tools.
        raise ToolError("Only the job's first agent can found a team.")
    name = given["name"]
    _teams(context).create(context.agent_id, context.cause, name, given.get("description", ""))
    founded = f"The team {name} is founded, and you lead it."
    if not given.get("agents"):
        return ToolResult(text=f"{founded} It has no teammates yet.")
    return _begin_with(context, founded, given["agents"])


def _begin_with(context: ToolContext, founded: str, members: list[dict[str, Any]]) -> ToolResult:
    if context.start_members is None:
        raise ToolError(f"{founded} Members cannot be started from here: start each with Agent.")
    asked = [{"description": one.get("role") or f"member {one['name']}", **one} for one in members]
    refused = context.start_members(context.tool_use_id, asked)
    started = [one["name"] for one in members if one["name"] not in refused]
    lines = [f"{founded} Started: {', '.join(started) or 'nobody'}. Their reports arrive automatically."]
    lines += [f"Not started: {name}: {why}" for name, why in refused.items()]
    return ToolResult(text="\n".join(lines), is_error=not started)


def _delete(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    force = bool(given.get("force"))
    stopped, effect = _teams(context).delete(context.agent_id, context.cause, force=force)
    context.publish(effect)
    who = f"Stopped: {', '.join(stopped)}." if stopped else "No teammate had to be stopped."
    return ToolResult(text=f"The team is dissolved. {who}")


def _teams(context: ToolContext) -> Teams:
    return Teams(context.store.keyspace, context.job_id)


_GIVEN = ("name", "prompt", "description", "subagent_type", "role", "model", "effort", "mode", "cwd", "isolation")
_MEMBER: dict[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in _GIVEN},
    "required": ["name", "prompt"],
    "additionalProperties": False,
}
"""A member's parameters, those of an `Agent` call, which checks them."""

TEAM_CREATE = Tool(
    name="TeamCreate",
    description=(
        "Found a team that you lead, for work on which several agents stay together, write to each other and share a task "
        "board. Then put the tasks on the board (BoardAdd) and start the teammates (Agent with teammate, name and role). Idle "
        "teammates are offered suitable tasks automatically. At the end ask each with a shutdown_request to leave, then call TeamDelete."
    ),
    parameters={
        "name": string("Letters, digits, '-', '_', '.'."),
        "description": string("The team's purpose."),
        "agents": {
            "type": "array",
            "maxItems": MAX_MEMBERS,
            "items": _MEMBER,
            "description": "Teammates that begin with the team, all at once; further ones come with Agent.",
        },
        "strategy": choice(
            ["parallel"],
            "parallel: they work at the same time, the only way. Put consecutive work on the board "
            "as tasks that block each other (BoardAdd).",
        ),
    },
    required=["name"],
    run=_create,
)

TEAM_DELETE = Tool(
    name="TeamDelete",
    description="Dissolve your team. Idle teammates are stopped; while any is at work it is refused. Board and scratchpad stay.",
    parameters={"force": boolean("Stop teammates that are at work too; their tasks go back.")},
    run=_delete,
)
