"""The TodoWrite tool: an agent's own plan, kept in its conversation."""

from __future__ import annotations

from typing import Any

from swarm.agent.history import History
from swarm.core.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.schemas import string

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def write_todos(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Check the list and give it back, rendered."""
    todos: list[dict[str, str]] = given["todos"]
    if any(not todo["content"].strip() for todo in todos):
        raise ToolError("a todo has an empty content; name the task")
    current = [todo["content"] for todo in todos if todo["status"] == "in_progress"]
    if len(current) > 1:
        raise ToolError(f"{len(current)} todos are in_progress ({'; '.join(current)}); mark only the one you work on")
    if not todos:
        return ToolResult(text="The list is empty.")
    done = sum(todo["status"] == "completed" for todo in todos)
    lines = [f"{done} of {len(todos)} done"]
    lines += [f"{_MARKS[todo['status']]} {' '.join(todo['content'].split())}" for todo in todos]
    return ToolResult(text="\n".join(lines))


def restate_todos(ctx: ToolContext, history: History) -> str:
    """Return the latest list."""
    last = history.context.heartbeat.get(TODO_WRITE.name)
    return write_todos(ctx, last).text if last and last["todos"] else ""


def _activity(given: dict[str, Any]) -> str:
    todos: list[dict[str, str]] = given["todos"]
    return next((todo["activeForm"] for todo in todos if todo["status"] == "in_progress"), "Update the todo list")


TODO_WRITE = Tool(
    name="TodoWrite",
    description=(
        "Write your plan for work of several steps, and keep it current: the whole list each time, at most one "
        "step in_progress, a step completed as soon as it is. Not needed for a single step."
    ),
    parameters={
        "todos": {
            "type": "array",
            "maxItems": 200,
            "items": {
                "type": "object",
                "properties": {
                    "content": string("The task.", minLength=1),
                    "status": {"type": "string", "enum": list(_MARKS)},
                    "activeForm": string("The task in progress: `Running the tests`.", minLength=1),
                },
                "required": ["content", "status", "activeForm"],
                "additionalProperties": False,
            },
        }
    },
    required=["todos"],
    run=write_todos,
    activity=_activity,
)
