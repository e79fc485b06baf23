"""A job's task board in Redis: tasks with owners, roles and dependencies.

Guarantees: every change is one atomic step, so a task has one owner at a time; repeating a cause returns the first answer and changes
nothing; an agent's tasks in progress go back the moment it ends.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import BoardRefused
from swarm.core.settings import BOARD_MIB
from swarm.store.keyspace import Keyspace
from swarm.store.values import NOT_LIVE, Signals, normal_role

MAX_TASKS = 1_000
MAX_SUBJECT_CHARACTERS = 200
MAX_ROLE_CHARACTERS = 64
MAX_TEXT_BYTES = 8 * 1024
"""Most bytes of a description, a result or a note."""
MAX_NOTES_BYTES = 64 * 1024
"""Most bytes of all notes of one task."""

TaskState = Literal["pending", "in_progress", "completed"]


class TaskView(BaseModel):
    """The current state of one task."""

    model_config = ConfigDict(frozen=True)

    number: int
    subject: str
    state: TaskState
    role: str | None = None
    """The role that an owner must have; None: any agent."""
    blocked_by: list[int] = []
    """The tasks that must be completed before it."""
    waits_for: list[int] = []
    """Blocking tasks that are not completed yet."""
    owner: str | None = None
    """The id of the owner; of a completed task, of the last one."""
    owner_name: str | None = None
    """The owner's name, or the id again if it has none."""
    by: str
    by_name: str
    created: float
    changed: float


class TaskChanges(TypedDict, total=False):
    """The changeable fields of a task."""

    subject: str
    description: str
    role: str
    blocked_by: Sequence[int]
    note: str


class TaskTexts(BaseModel):
    """The long texts of one task."""

    model_config = ConfigDict(frozen=True)

    description: str = ""
    result: str = ""
    notes: str = ""


class Board:
    """The board of one job. Steps take the acting agent and the cause, which identifies repeats."""

    def __init__(self, keyspace: Keyspace, job_id: str, most_mib: int = BOARD_MIB) -> None:
        self._keyspace, self._job_id, self._most_mib = keyspace, job_id, most_mib

    # -- reading -------------------------------------------------------------------------------------------

    def tasks(self) -> list[TaskView]:
        """All tasks, by number."""
        stored = self._keyspace.client.hgetall(self._keyspace.key("job", self._job_id, "board"))
        records = {int(number): json.loads(record) for number, record in stored.items()}
        completed = {number for number, record in records.items() if record["state"] == "completed"}
        return [
            TaskView(number=number, waits_for=[n for n in record.get("blocked_by", []) if n not in completed], **record)
            for number, record in sorted(records.items())
        ]

    def texts(self, numbers: Sequence[int]) -> dict[int, TaskTexts]:
        """The long texts of these tasks."""
        if not numbers:
            return {}
        names = tuple(TaskTexts.model_fields)
        wanted = [f"{number} {name}" for number in numbers for name in names]
        found = iter(self._keyspace.client.hmget(self._keyspace.key("job", self._job_id, "board", "text"), wanted))
        return {number: TaskTexts(**{name: next(found) or "" for name in names}) for number in numbers}

    # -- steps: each raises `BoardRefused` ------------------------------------------------------------------

    def add(
        self,
        agent_id: str,
        cause: str,
        subject: str,
        description: str = "",
        *,
        role: str | None = None,
        blocked_by: Sequence[int] = (),
    ) -> tuple[int, Signals]:
        """Add a task and return its number."""
        given: dict[str, Any] = {
            "subject": check_subject(subject),
            "description": check_text("description", description),
            "blocked_by": _numbers(blocked_by),
            "max_tasks": MAX_TASKS,
            "most_mib": self._most_mib,
        }
        if role is not None and check_role(role):
            given["role"] = check_role(role)
        said, effect = self._step("add", agent_id, cause, given)
        return int(said["task"]), effect

    def claim(self, agent_id: str, cause: str, number: int | None = None) -> tuple[int, Signals]:
        """Take a task, or the first one that is open and fits the agent's role; returns its number."""
        said, effect = self._step("claim", agent_id, cause, {} if number is None else {"task": number})
        return int(said["task"]), effect

    def update(self, agent_id: str, cause: str, number: int, **changes: Unpack[TaskChanges]) -> Signals:
        """Change the given fields; `role=""` opens the task to all agents, a note is added to the others."""
        given: dict[str, Any] = {name: _CHECKS[name](value) for name, value in changes.items() if value is not None}
        given |= {"task": number, "max_notes": MAX_NOTES_BYTES, "most_mib": self._most_mib}
        while True:
            try:
                return self._step("update", agent_id, cause, given)[1]
            except _Unseen:
                # Others may change more before the next attempt, but then one of them has made progress.
                given["seen"] = self._look_for_circle(number, given["blocked_by"])

    def _look_for_circle(self, number: int, wanted: Sequence[int]) -> int:
        """Return the count of changes at which no wanted task waits for `number`. Raises `BoardRefused` for a circle."""
        pipeline = self._keyspace.client.pipeline()
        pipeline.hget(self._keyspace.key("job", self._job_id), "board_ways")
        pipeline.hgetall(self._keyspace.key("job", self._job_id, "board"))
        seen, stored = pipeline.execute()
        blocked_by = {int(task): json.loads(record).get("blocked_by", []) for task, record in stored.items()}
        if way := find_way(blocked_by, wanted, number):
            raise BoardRefused(_describe_refusal("circle", {"task": number, "way": way}))
        return int(seen or 0)

    def give(self, agent_id: str, cause: str, number: int, to: str) -> Signals:
        """Give a task to the agent `to`."""
        return self._step("give", agent_id, cause, {"task": number, "to": to})[1]

    def release(self, agent_id: str, cause: str, number: int) -> Signals:
        """Put a task back, for others to claim."""
        return self._step("give", agent_id, cause, {"task": number, "to": ""})[1]

    def complete(self, agent_id: str, cause: str, number: int, result: str) -> tuple[list[int], Signals]:
        """Complete a task; returns the tasks that this made claimable."""
        given = {"task": number, "result": check_text("result", result)}
        said, effect = self._step("complete", agent_id, cause, given)
        return [int(n) for n in said["unblocked"].split(", ") if n], effect

    def _step(self, operation: str, agent_id: str, cause: str, given: dict[str, Any]) -> tuple[dict[str, Any], Signals]:
        request = json.dumps({"agent": agent_id, "cause": f"board/{cause}", **given})
        answer = self._keyspace.run("board", self._job_id, operation, request)
        match answer:
            case ["ok", publish, said, kill]:
                return json.loads(said), Signals(publish=publish, kill=kill)
            case ["none", counts]:
                raise NothingOpen(_NOTHING_OPEN.format(**json.loads(counts)))
            case [_, "unseen", _]:
                raise _Unseen("the blocking tasks have changed")
            case [_, why, about]:
                # Lua writes a number of more than 14 digits as a float.
                raise BoardRefused(_describe_refusal(why, json.loads(about, parse_float=lambda text: int(float(text)))))
        raise AssertionError(f"unknown answer of board.lua: {answer}")


_NOTHING_OPEN = "{open} open for other roles, {in_progress} in progress, {blocked} blocked, {completed} completed"
_REFUSALS = {
    "not live": NOT_LIVE,
    "in progress": "task {task} belongs to {owner}, who works on it",
    "itself": "task {task} cannot wait for itself",
    "full": "the board is full: a job has at most {most} tasks",
    "no room": "the board would be longer than {most} MiB; shorten descriptions, and put long texts on pages of the scratchpad",
    "only notes": "task {task} is completed: only notes can be added",
    "not yours": "task {task} can be changed by the lead, by {by} who added it, and by its owner; add a note instead",
    "at work": "task {task} is in progress: give it back before changing what blocks it",
    "notes full": "the notes of task {task} are full; write to a page of the scratchpad",
    "ended": "{who} has ended: it cannot have a task",
}


def _describe_refusal(why: str, about: dict[str, Any]) -> str:
    """Describe a refusal of `board.lua` by its code and fields."""
    number = about.get("task")
    match why:
        case "unknown":
            there = f"the board has tasks 1 to {about['tasks']}" if about["tasks"] else "the board is empty"
            return f"there is no task {number}: {there}"
        case "completed":
            return f"task {number} is completed already" + (f", by {about['by']}" if "by" in about else "")
        case "blocked":
            return f"task {number} is blocked until task {', '.join(map(str, about['by']))} is completed"
        case "role":
            has = f"the role '{about['has']}'" if "has" in about else "no role"
            return f"task {number} is for the role '{about['wanted']}'; {about.get('who', 'the caller')} has {has}"
        case "circle":
            way = ", which waits for ".join(map(str, about["way"]))
            return f"that would make a circle: task {number} waits for {way}"
        case "not to give":
            owner = f", {about['owner']}" if "owner" in about else ""
            return f"task {number} can be given away by the lead and by its owner{owner}"
        case "not owned" if "owner" in about:
            return f"task {number} belongs to {about['owner']}: only its owner and the lead can complete it"
        case "not owned":
            return f"task {number} has no owner yet: claim it first"
    return _REFUSALS[why].format(**about)


class _Unseen(BoardRefused):
    """A change must be checked for circles first, or again."""


class NothingOpen(BoardRefused):
    """The agent can claim no task now; the message counts the reasons."""


def check_subject(subject: str) -> str:
    """The subject as one line. Raises `BoardRefused`."""
    line = " ".join(_storable(subject).split())
    if not line:
        raise BoardRefused("a task needs a subject: describe it in one line")
    if len(line) > MAX_SUBJECT_CHARACTERS:
        raise BoardRefused(
            f"the subject has {len(line)} characters, more than {MAX_SUBJECT_CHARACTERS}; the rest is for the description"
        )
    return line


def check_role(role: str) -> str:
    """Normalise a role for comparison. Raises `BoardRefused`."""
    normal = normal_role(_storable(role))
    if len(normal) > MAX_ROLE_CHARACTERS:
        raise BoardRefused(f"the role has {len(normal)} characters, more than {MAX_ROLE_CHARACTERS}")
    return normal


def check_text(what: str, text: str) -> str:
    """Check a long text of a task. Raises `BoardRefused`."""
    text = _storable(text).strip()
    if (size := len(text.encode())) > MAX_TEXT_BYTES:
        raise BoardRefused(
            f"the {what} has {size:,} bytes, more than {MAX_TEXT_BYTES:,}; put it on a page of the scratchpad and name the page"
        )
    return text


def _storable(text: str) -> str:
    # Half a surrogate pair has no UTF-8 form.
    return text.encode("utf-8", "replace").decode()


def find_way(blocked_by: Mapping[int, Sequence[int]], start: Iterable[int], end: int) -> list[int]:
    """Find the shortest chain of tasks, each waiting for the next, from one of `start` to `end`.

    Empty if there is none. Takes linear time.
    """
    way: dict[int, int | None] = dict.fromkeys(start)
    reached = deque(way)
    while reached:
        task = reached.popleft()
        if task == end:
            found: list[int] = []
            step: int | None = task
            while step is not None:
                found.append(step)
                step = way[step]
            return found[::-1]
        for first in blocked_by.get(task, ()):
            if first not in way:
                way[first] = task
                reached.append(first)
    return []


def _numbers(numbers: Sequence[int]) -> list[int]:
    return sorted(set(numbers))


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "subject": check_subject,
    "description": partial(check_text, "description"),
    "role": check_role,
    "blocked_by": _numbers,
    "note": partial(check_text, "note"),
}
"""Changeable field of a task → function that checks it."""
