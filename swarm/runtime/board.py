"""The job's task board as one agent uses it: its tools' port, and waiting for tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from swarm.agent.entries import Condition, ToolFinished
from swarm.errors import BoardRefused, MessageRefused, ToolError
from swarm.models import Block
from swarm.runtime.journal import Journal
from swarm.store.values import Counters, Effect, GoOn
from swarm.team.board import Board, NothingOpen, TaskView
from swarm.team.board_tools import BOARD_WAIT
from swarm.tools.peers import DEFAULT_WAIT_SECONDS
from swarm.tools.registry import validate_input

_SHOWN_RESULT_CHARACTERS = 600


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (BoardRefused, MessageRefused) as error:
        text = str(error)
        raise ToolError(f"{text[:1].upper()}{text[1:]}.") from error


class AgentBoard:
    """The board on behalf of one running agent."""

    def __init__(self, journal: Journal, tell: Callable[[Effect | None], None]) -> None:
        self._journal, self._tell = journal, tell
        self._spec, self._store = journal.claim.spec, journal.store
        self._board = Board(self._store, self._spec.job_id)
        self._id = self._spec.agent_id

    def _cause(self, call_id: str) -> str:
        return f"{self._id}/{call_id}"

    # -- the tools' port -------------------------------------------------------------------------------------

    def add_task(self, cause: str, given: Mapping[str, Any]) -> str:
        """Add a task and name its number."""
        with _refusals():
            number, effect = self._board.add(
                self._id,
                self._cause(cause),
                given["subject"],
                given.get("description", ""),
                role=given.get("role"),
                blocked_by=given.get("blocked_by", ()),
            )
        self._tell(effect)
        return f"Added as task {number}."

    def list_tasks(self, state: str | None) -> str:
        """A line for each task."""
        tasks = self._board.tasks()
        if not tasks:
            return "The board is empty."
        chosen = [t for t in tasks if state in (None, t.state) or (state == "open" and t.state != "completed")]
        done = sum(task.state == "completed" for task in tasks)
        head = f"{done} of {len(tasks)} completed."
        return "\n".join([head, *map(_describe, chosen)])

    def show_task(self, number: int) -> str:
        """Everything about one task."""
        found = [task for task in self._board.tasks() if task.number == number]
        if not found:
            raise ToolError(f"There is no task {number} on the board.")
        return self._show(found[0])

    def claim_task(self, cause: str, number: int | None) -> str:
        """Take a task and show it."""
        try:
            with _refusals():
                claimed, effect = self._board.claim(self._id, self._cause(cause), number)
        except ToolError as error:
            if isinstance(error.__cause__, NothingOpen):
                return (
                    f"No task is open to you now: {error.__cause__}. If nothing else is left to do, end your turn: a teammate is "
                    "offered a task as soon as there is one. BoardWait waits for certain tasks."
                )
            raise
        self._tell(effect)
        return f"Task {claimed} is yours.\n{self.show_task(claimed)}"

    def update_task(self, cause: str, given: Mapping[str, Any]) -> str:
        """Change a task; its owner last."""
        number, cause = given["task_id"], self._cause(cause)
        changes = {
            name: given[name] for name in ("subject", "description", "role", "blocked_by", "note") if name in given
        }
        with _refusals():
            owner = given["owner"].strip() if "owner" in given else None
            to = self._find(owner) if owner else None
            if changes:
                self._tell(self._board.update(self._id, cause, number, **changes))
            if owner is not None:
                step = f"{cause}/owner"
                give, release = self._board.give, self._board.release
                self._tell(give(self._id, step, number, to) if to else release(self._id, step, number))
        return f"Changed. {self.show_task(number)}"

    def _find(self, who: str) -> str:
        if who in (self._id, self._spec.name):
            return self._id
        # "*" and the person are nobody who could have a task.
        found = self._store.directory(self._spec.job_id).find("\0" if who == "*" else who, self._id)
        if found[0].id == self._spec.job_id:
            raise BoardRefused("the person takes no tasks")
        return found[0].id

    def complete_task(self, cause: str, number: int, result: str) -> str:
        """Complete a task, and say what it unblocked."""
        with _refusals():
            unblocked, effect = self._board.complete(self._id, self._cause(cause), number, result)
        self._tell(effect)
        if not unblocked:
            return f"Task {number} is completed."
        return f"Task {number} is completed. Open now: {', '.join(map(str, unblocked))}."

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait(self, call: Block, since: Condition | None) -> Effect | None:
        """Carry out a `BoardWait` call: an effect when the agent has parked, None when the call has its result."""
        try:
            given = validate_input(BOARD_WAIT, call["input"])
            numbers = [int(n) for n in since.tasks] if since is not None else self._awaited(given.get("task_ids"))
        except ToolError as error:
            self._finish(call, str(error), is_error=True)
            return None
        if since is None:
            timeout = given.get("timeout_seconds", DEFAULT_WAIT_SECONDS)
            condition = Condition(
                tasks=[str(n) for n in numbers], mode=given.get("mode", "all"), mail="talk", until=time.time() + timeout
            )
            answer = self._journal.park(condition, tool_use_id=call["id"])
            if not isinstance(answer, GoOn):
                return answer
        self._finish(call, self._describe_waited(numbers))
        return None

    def _awaited(self, wanted: Sequence[int] | None) -> list[int]:
        tasks = {task.number: task for task in self._board.tasks()}
        if not wanted:
            chosen = [number for number, task in tasks.items() if task.state != "completed"]
            if not chosen:
                raise ToolError("No task of the board is left to be completed: there is nothing to wait for.")
            return chosen
        if missing := [str(number) for number in wanted if number not in tasks]:
            raise ToolError(f"There is no task {', '.join(missing)} on the board.")
        return sorted(set(wanted))

    def _describe_waited(self, numbers: Sequence[int]) -> str:
        tasks = [task for task in self._board.tasks() if task.number in set(numbers)]
        texts = self._board.texts([task.number for task in tasks if task.state == "completed"])
        lines = [f"{len(texts)} of {len(tasks)} completed."]
        for task in tasks:
            lines.append(_describe(task))
            if task.number in texts and texts[task.number].result:
                result = texts[task.number].result
                more = f" … (BoardList with task_id {task.number} shows all)"
                lines.append(
                    result if len(result) <= _SHOWN_RESULT_CHARACTERS else result[:_SHOWN_RESULT_CHARACTERS] + more
                )
        return "\n".join(lines)

    def _finish(self, call: Block, text: str, *, is_error: bool = False) -> None:
        result = ToolFinished(tool_use_id=call["id"], text=text, is_error=is_error)
        self._journal.append([result], counters=Counters(tools=1))

    def _show(self, task: TaskView) -> str:
        texts = self._board.texts([task.number])[task.number]
        lines = [_describe(task), f"Added by {task.by_name}."]
        for name, text in (("Description", texts.description), ("Notes", texts.notes), ("Result", texts.result)):
            if text:
                lines.append(f"{name}:\n{text}")
        return "\n".join(lines)


_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


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
