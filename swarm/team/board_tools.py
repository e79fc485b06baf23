"""The tools of the task board that a job's agents share: add, list, claim, update, complete, wait.

What a step changes is changed once, however often it is repeated, so none of them counts as having effects. The runtime carries
out `BoardWait` itself, because waiting gives the process back.
"""

from __future__ import annotations

from typing import Any

from swarm.errors import ToolError
from swarm.tools import Board, Tool, ToolContext, ToolResult, repeatable_tool, runtime_only
from swarm.tools.peers import DEFAULT_WAIT_SECONDS, MAX_WAIT_SECONDS, MIN_WAIT_SECONDS

_TASK = {"type": "integer", "minimum": 1, "description": "Number of the task."}
_TASKS = {"type": "array", "items": {"type": "integer", "minimum": 1}}


def board_tools() -> dict[str, Tool]:
    """All of them, by name."""
    tools = (BOARD_ADD, BOARD_LIST, BOARD_CLAIM, BOARD_UPDATE, BOARD_COMPLETE, BOARD_WAIT)
    return {tool.name: tool for tool in tools}


def _board(context: ToolContext) -> Board:
    if context.board is None:
        raise ToolError("There is no task board here.")
    return context.board


def _add(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_board(context).add_task(context.tool_use_id, given))


def _list(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    if given.get("task_id") is not None:
        return ToolResult(text=_board(context).show_task(given["task_id"]))
    return ToolResult(text=_board(context).list_tasks(given.get("state")))


def _claim(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_board(context).claim_task(context.tool_use_id, given.get("task_id")))


def _update(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    if not set(given) - {"task_id"}:
        raise ToolError("BoardUpdate: say what is to change: subject, description, role, blocked_by, owner or note")
    return ToolResult(text=_board(context).update_task(context.tool_use_id, given))


def _complete(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_board(context).complete_task(context.tool_use_id, given["task_id"], given["result"]))


BOARD_ADD = repeatable_tool(
    "BoardAdd",
    "Add a task to the job's board, for any agent or for one role. Idle teammates that it fits are offered it by themselves.",
    {
        "subject": {"type": "string", "description": "What is to be done, in one line of at most 200 characters."},
        "description": {
            "type": "string",
            "description": "All that whoever takes it must know, at most 8 KiB; name pages and files.",
        },
        "role": {"type": "string", "description": "Only agents with this role may take it."},
        "blocked_by": {**_TASKS, "description": "Tasks that must be completed first."},
    },
    ["subject"],
    run=_add,
    activity=lambda given: f"BoardAdd {given.get('subject', '')}",
)

BOARD_LIST = repeatable_tool(
    "BoardList",
    "Show the board, a line for each task; or, with `task_id`, everything about one task: description, notes, result.",
    {
        "task_id": _TASK,
        "state": {
            "enum": ["open", "pending", "in_progress", "completed"],
            "description": "Only these tasks; `open`: all that are not completed.",
        },
    },
    [],
    run=_list,
    activity=lambda given: f"BoardList {given.get('task_id', '')}".rstrip(),
)

BOARD_CLAIM = repeatable_tool(
    "BoardClaim",
    "Take a task for yourself before you work on it: the one named, or the first that is open to you. Nobody else can take it then. "
    "It goes back when you end without completing it.",
    {"task_id": _TASK},
    [],
    run=_claim,
    activity=lambda given: f"BoardClaim {given.get('task_id', '')}".rstrip(),
)

BOARD_UPDATE = repeatable_tool(
    "BoardUpdate",
    "Change a task of the board, give it to another agent, put it back, or add a note.",
    {
        "task_id": _TASK,
        "subject": {"type": "string"},
        "description": {"type": "string"},
        "role": {"type": "string", "description": "Empty: for everybody."},
        "blocked_by": {**_TASKS, "description": "Instead of those it had."},
        "owner": {"type": "string", "description": "Name or id of who has it from now on; empty: put it back."},
        "note": {"type": "string", "description": "Something others should know; added to the notes."},
    },
    ["task_id"],
    run=_update,
    activity=lambda given: f"BoardUpdate {given.get('task_id', '')}",
)

BOARD_COMPLETE = repeatable_tool(
    "BoardComplete",
    "Complete a task that you have claimed (the lead: any). Whoever waits for it goes on, and what it blocked can be claimed.",
    {
        "task_id": _TASK,
        "result": {
            "type": "string",
            "description": "What came of it, with evidence, at most 8 KiB; name pages and files for more.",
        },
    },
    ["task_id", "result"],
    run=_complete,
    activity=lambda given: f"BoardComplete {given.get('task_id', '')}",
)

BOARD_WAIT = repeatable_tool(
    "BoardWait",
    "Wait until tasks of the board are completed, a message arrives, or the time is over; answers how they stand. Costs nothing while "
    "it waits: one long wait is better than many short ones.",
    {
        "task_ids": {**_TASKS, "description": "Default: all that are not completed."},
        "mode": {"enum": ["any", "all"], "description": "Wait for the first or for all of them; default all."},
        "timeout_seconds": {
            "type": "number",
            "minimum": MIN_WAIT_SECONDS,
            "maximum": MAX_WAIT_SECONDS,
            "description": f"Default {DEFAULT_WAIT_SECONDS}.",
        },
    },
    [],
    run=runtime_only,
    activity=lambda given: "waiting for tasks",
)
