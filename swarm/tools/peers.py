"""The tools about other agents: write to them, wait for them, list them, stop them.

The runtime carries out `SendMessage` and `WaitAgents` itself: sending enters the journal in the same step as the mailbox, and
waiting gives the process back.
"""

from __future__ import annotations

from typing import Any

from swarm.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult, runtime_only

MIN_WAIT_SECONDS, DEFAULT_WAIT_SECONDS, MAX_WAIT_SECONDS = 10, 30, 3_600
MESSAGE_KINDS = ("message", "shutdown_request", "shutdown_response", "plan_response")


def peer_tools() -> dict[str, Tool]:
    """All of them, by name."""
    return {tool.name: tool for tool in (SEND_MESSAGE, WAIT_AGENTS, LIST_AGENTS, STOP_AGENT)}


def _list_agents(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_peers(context).list_agents())


def _stop_agent(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    reason = str(given.get("reason") or "stopped by the agent that started it")
    return ToolResult(text=_peers(context).stop_agent(given["agent_id"], reason))


def _peers(context: ToolContext) -> Any:
    if context.peers is None:
        raise ToolError("No other agents can be reached from here.")
    return context.peers


SEND_MESSAGE = Tool(
    name="SendMessage",
    description=(
        "Write to another agent of this job, or to the person. It is delivered between the receiver's turns, with your name on "
        "it. A receiver that has finished goes on with its whole context; one that was stopped cannot be written to. Answers "
        "arrive by themselves as messages: do not poll for them. Your final answer goes to whoever asked you by itself; do not "
        "send it as a message too."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "to": {
                "type": "string",
                "description": "A name or id, `parent`, `user` (the person), or `*` (your team; without one, all live agents).",
            },
            "message": {
                "type": "string",
                "description": "What to say, at most 64 KiB; name files instead of quoting them.",
            },
            "kind": {
                "enum": list(MESSAGE_KINDS),
                "description": (
                    "`shutdown_request` asks a teammate to end; a teammate answers with `shutdown_response`, and a plan that "
                    "was handed in is answered with `plan_response`. Default: message."
                ),
            },
            "request_id": {"type": "string", "description": "Of the request that a response answers."},
            "approve": {"type": "boolean", "description": "A response's yes or no; say why in `message`."},
        },
        "required": ["to", "message"],
        "additionalProperties": False,
    },
    run=runtime_only,
    effects=False,
    activity=lambda given: f"SendMessage to {given.get('to', '')}",
)

WAIT_AGENTS = Tool(
    name="WaitAgents",
    description=(
        "Wait until agents that you started in the background have ended, a message arrives, or the time is over. Costs nothing "
        "while it waits. Answers their states; what they found follows as task-notifications. One long wait is better "
        "than many short ones. Not needed for agents in the foreground."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "agent_ids": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Ids or names; default: all of yours that are still at work.",
            },
            "mode": {"enum": ["any", "all"], "description": "Wait for the first or for all of them; default all."},
            "timeout_seconds": {
                "type": "number",
                "minimum": MIN_WAIT_SECONDS,
                "maximum": MAX_WAIT_SECONDS,
                "description": f"Default {DEFAULT_WAIT_SECONDS}.",
            },
        },
        "additionalProperties": False,
    },
    run=runtime_only,
    effects=False,
    activity=lambda given: "waiting for agents",
)

LIST_AGENTS = Tool(
    name="ListAgents",
    description=(
        "List the agents that you started, and those they started: name, state now, age, last activity, tokens. What the "
        "conversation says of a state may be old; this is how it is now. To be told of an end, wait for it; do not list again and again."
    ),
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
    run=_list_agents,
    effects=False,
    activity=lambda given: "ListAgents",
)

STOP_AGENT = Tool(
    name="StopAgent",
    description="Stop an agent that you started, and all that it started, at once and for good. What it has not told yet is lost.",
    input_schema={
        "type": "object",
        "properties": {
            "agent_id": {"type": "string", "description": "Its id or name."},
            "reason": {"type": "string", "description": "Why, in a few words."},
        },
        "required": ["agent_id"],
        "additionalProperties": False,
    },
    run=_stop_agent,
    # Stopping what has stopped changes nothing.
    effects=False,
    activity=lambda given: f"StopAgent {given.get('agent_id', '')}",
)
