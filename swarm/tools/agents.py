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
            "already, paths, and what to answer. To run several at the same time, make several Agent calls in one reply. "
            "With run_in_background the call returns at once, and the answer arrives by itself as a task-notification.\n"
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
                "name": {"type": "string", "description": "A name to write to it by; never used twice in a job."},
                "run_in_background": {"type": "boolean", "description": "Go on without waiting for it."},
                "agent_id": {
                    "type": "string",
                    "description": (
                        "The id or name of an agent that you started: it goes on with `prompt`, with all it knows; "
                        "its type, model and name stay."
                    ),
                },
                "fork": {
                    "type": "boolean",
                    "description": "It begins with this whole conversation, as the same type, instead of a fresh one.",
                },
                "teammate": {
                    "type": "boolean",
                    "description": (
                        "It joins your team (TeamCreate), and stays when it is done: it waits for messages and tasks, in the "
                        "background. Needs a name."
                    ),
                },
                "role": {"type": "string", "description": "A teammate's role: which tasks of the board are for it."},
                "result_schema": {
                    "type": "object",
                    "description": "A JSON schema: the answer will be one JSON document that is valid for it.",
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
