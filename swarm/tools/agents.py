"""The tools that make agents. The runtime itself carries them out, because they change the tree, not the workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swarm.agent.life import SPAWN_TOOL
from swarm.definitions.model import AgentDefinition
from swarm.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult

DEFAULT_TYPE = "general-purpose"


def agent_tool(definitions: Sequence[AgentDefinition]) -> Tool:
    """The `Agent` tool, naming the types that can be started."""
    types = "\n".join(f"- {d.name}: {' '.join(d.description.split())}" for d in definitions)
    return Tool(
        name=SPAWN_TOOL,
        description=(
            "Start another agent on a part of the work and get its final answer as this call's result. It works on a process of "
            "its own with a fresh conversation, so the prompt must hold everything it needs: the goal, what is known "
            "already, paths, and what to answer. To run several at the same time, make several Agent calls in one reply.\n"
            f"Types:\n{types}"
        ),
        input_schema={
            "type": "object",
            "properties": {
                "description": {"type": "string", "description": "What it is for, in 3 to 5 words."},
                "prompt": {"type": "string", "description": "The whole task: it sees nothing else."},
                "subagent_type": {"type": "string", "description": f"One of the types above; default {DEFAULT_TYPE}."},
                "model": {
                    "type": "string",
                    "description": "haiku, sonnet, opus or a full model id; default: the type's own.",
                },
            },
            "required": ["description", "prompt"],
            "additionalProperties": False,
        },
        run=_refuse,
        effects=False,
        activity=lambda given: f"Agent {given.get('description', '')}",
    )


def _refuse(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    raise ToolError("The nesting limit is reached: you cannot start agents. Do the work yourself.")
