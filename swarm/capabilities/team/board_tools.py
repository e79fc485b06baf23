"""The tools of the task board that a job's agents share: add, list, claim, update, complete, wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swarm.agent.history import History
from swarm.agent.journaled import Condition
from swarm.capabilities.team.board import Board, NothingOpen, TaskView
from swarm.core.errors import BoardRefused, ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.agents import WAITING, deadline_of
from swarm.tools.schemas import choice, integer, string

_TASK = integer("Number of the task.", minimum=1)
_TASKS = {"type": "array", "items": {"type": "integer", "minimum": 1}}
_SHOWN_RESULT_CHARACTERS = 600
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def _board(context: ToolContext) -> Board:
    return Board(context.store.keyspace, context.job_id, context.most.board)


# -- the steps -------------------------------------------------------------------------------------------------


def _add(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    number, effect = _board(context).add(context.agent_id, context.cause, **given)
    context.publish(effect)
    return ToolResult(text=f"Added as task {number}.")


def _claim(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    try:
        claimed, effect = _board(context).claim(context.agent_id, context.cause, given.get("task_id"))
    except NothingOpen as error:
        return ToolResult(
            text=f"No task is open to you now: {error}. If nothing else is left to do, end your turn: a teammate is "
            "offered the next task. BoardWait waits for certain tasks."
        )
    context.publish(effect)
    return ToolResult(text=f"Task {claimed} is yours.\n{_show(context, claimed)}")


def _update(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    board, number, key = _board(context), given["task_id"], context.cause
    changes = {name: value for name, value in given.items() if name not in ("task_id", "owner")}
    if not changes and "owner" not in given:
        raise ToolError("BoardUpdate: name a change: subject, description, role, blocked_by, owner or note")
    owner = given.get("owner", "").strip()
    to = _find_owner(context, owner) if owner else ""
    if changes:
        context.publish(board.update(context.agent_id, key, number, **changes))
    # Its owner last: an agent that gives a task away may not change it any more.
    if "owner" in given:
        context.publish(board.give(context.agent_id, f"{key}/owner", number, to))
    return ToolResult(text=f"Changed. {_show(context, number)}")


def _find_owner(context: ToolContext, who: str) -> str:
    if who in (context.agent_id, context.spec.name):
        return context.agent_id
    return context.store.mail.directory(context.job_id).find_agent(who, context.agent_id).id


def _complete(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    number = given["task_id"]
    unblocked, effect = _board(context).complete(context.agent_id, context.cause, number, given["result"])
    context.publish(effect)
    now = f" Open now: {', '.join(map(str, unblocked))}." if unblocked else ""
    return ToolResult(text=f"Task {number} is completed.{now}")


# -- looking ---------------------------------------------------------------------------------------------------


def _list(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    if given.get("task_id") is not None:
        return ToolResult(text=_show(context, given["task_id"]))
    tasks, state = _board(context).tasks(), given.get("state")
    if not tasks:
        return ToolResult(text="The board is empty.")
    chosen = [t for t in tasks if state in (None, t.state) or (state == "open" and t.state != "completed")]
    done = sum(task.state == "completed" for task in tasks)
    return ToolResult(text="\n".join([f"{done} of {len(tasks)} completed.", *map(_describe, chosen)]))


def _show(context: ToolContext, number: int) -> str:
    board = _board(context)
    task = next((task for task in board.tasks() if task.number == number), None)
    if task is None:
        raise BoardRefused(f"there is no task {number} on the board")
    texts = board.texts([number])[number]
    lines = [_describe(task), f"Added by {task.by_name}."]
    for name, text in (("Description", texts.description), ("Notes", texts.notes), ("Result", texts.result)):
        if text:
            lines.append(f"{name}:\n{text}")
    return "\n".join(lines)


def restate_tasks(context: ToolContext, history: History) -> str:
    """Render the tasks that the agent has claimed and not completed."""
    board = _board(context)
    own = [task for task in board.tasks() if task.owner == context.agent_id and task.state == "in_progress"]
    texts = board.texts([task.number for task in own])
    return "\n".join(f"{_describe(task)}\n{texts[task.number].description}".strip() for task in own)


def _describe(task: TaskView) -> str:
    told = []
    if task.role:
        told.append(f"for {task.role}")
    if task.owner_name:
        told.append(f"by {task.owner_name}" if task.state == "completed" else f"{task.owner_name} has it")
    if task.waits_for:
        told.append(f"blocked until {', '.join(map(str, task.waits_for))}")
    line = f"{_MARKS[task.state]} {task.number}. {task.subject}"
    return f"{line} ({'; '.join(told)})" if told else line


# -- waiting ---------------------------------------------------------------------------------------------------


def _await_tasks(context: ToolContext, given: dict[str, Any]) -> Condition:
    numbers = _awaited(_board(context).tasks(), given.get("task_ids"))
    return Condition(
        tasks=[str(n) for n in numbers], mode=given.get("mode", "all"), mail="talk", until=deadline_of(context, given)
    )


def _awaited(tasks: Sequence[TaskView], wanted: Sequence[int] | None) -> list[int]:
    if not wanted:
        chosen = [task.number for task in tasks if task.state != "completed"]
        if not chosen:
            raise ToolError("All tasks of the board are completed: there is nothing to wait for.")
        return chosen
    if missing := [str(number) for number in wanted if number not in {task.number for task in tasks}]:
        raise ToolError(f"There is no task {', '.join(missing)} on the board.")
    return sorted(set(wanted))


def _tell_waited(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    assert context.waited is not None
    board, numbers = _board(context), {int(number) for number in context.waited.tasks}
    tasks = [task for task in board.tasks() if task.number in numbers]
    texts = board.texts([task.number for task in tasks if task.state == "completed"])
    lines = [f"{len(texts)} of {len(tasks)} completed."]
    for task in tasks:
        lines.append(_describe(task))
        result = texts[task.number].result if task.number in texts else ""
        if len(result) > _SHOWN_RESULT_CHARACTERS:
            more = f" … (BoardList with task_id {task.number} shows all)"
            result = result[:_SHOWN_RESULT_CHARACTERS] + more
        lines += [result] if result else []
    return ToolResult(text="\n".join(lines))


BOARD_ADD = Tool(
    "BoardAdd",
    "Add a task to the job's board, for any agent or for one role. It is offered to suitable idle teammates automatically.",
    {
        "subject": string("The task, in one line of at most 200 characters."),
        "description": string("All that its owner must know, at most 8 KiB; name pages and files."),
        "role": string("Only agents with this role may take it."),
        "blocked_by": {**_TASKS, "description": "Tasks that must be completed first."},
    },
    ["subject"],
    run=_add,
)

BOARD_LIST = Tool(
    "BoardList",
    "Show the board, a line for each task; or, with `task_id`, everything about one task: description, notes, result.",
    {
        "task_id": _TASK,
        "state": choice(
            ["open", "pending", "in_progress", "completed"], "Only these tasks; `open`: all that are not completed."
        ),
    },
    run=_list,
)

BOARD_CLAIM = Tool(
    "BoardClaim",
    "Take a task for yourself before you work on it: the one named, or the first that is open to you. No other agent can take it then. "
    "It goes back when you end without completing it.",
    {"task_id": _TASK},
    run=_claim,
)

BOARD_UPDATE = Tool(
    "BoardUpdate",
    "Change a task of the board, give it to another agent, put it back, or add a note.",
    {
        "task_id": _TASK,
        "subject": {"type": "string"},
        "description": {"type": "string"},
        "role": string("Empty: for everybody."),
        "blocked_by": {**_TASKS, "description": "Replaces its earlier list."},
        "owner": string("Name or id of the new owner; empty: put it back."),
        "note": string("A fact for others; added to the notes."),
    },
    ["task_id"],
    run=_update,
)

BOARD_COMPLETE = Tool(
    "BoardComplete",
    "Complete a task that you have claimed (the lead: any). Agents that wait for it continue, and tasks that it blocked can be claimed.",
    {
        "task_id": _TASK,
        "result": string("The result, with evidence, at most 8 KiB; name pages and files for more."),
    },
    ["task_id", "result"],
    run=_complete,
)

BOARD_WAIT = Tool(
    "BoardWait",
    "Wait until tasks of the board are completed, a message arrives, or the time is up; returns their states. Costs nothing while "
    "it waits: one long wait is better than many short ones.",
    {"task_ids": {**_TASKS, "description": "Default: all that are not completed."}, **WAITING},
    wait=_await_tasks,
    run=_tell_waited,
)
