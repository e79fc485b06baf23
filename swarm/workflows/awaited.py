"""A sandboxed program's open calls, with their retries and time limits, and its timers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from swarm.agent.notes import event_missed
from swarm.core.lines import Line
from swarm.definitions.tools import CLEAN, EVENT, MAP_ROWS, MERGE, MESSAGE, QUESTION, READ_ROWS, SHELL, SPAWN
from swarm.workflows.desk import UNMARKED, Allowance, CallMarks, Desk
from swarm.workflows.results import as_text, read_task
from swarm.workflows.rows import describe_part

LONGEST_SECONDS = 1e9
WEEK_SECONDS = 7 * 86_400.0


class Asked(NamedTuple):
    """A call that a program asks for."""

    tool: str
    given: dict[str, Any]
    form: Literal["text", "data", "command"] = "text"
    """`data`: the result is JSON, if it can be read so. `command`: it says whether the command passed; a failing one is a value."""
    retry: int = 0
    """How often a failed call is made again."""
    timeout: float | None = None
    """Time limit of each try, in seconds."""
    marks: CallMarks = UNMARKED
    is_agent: bool = False
    """True for an agent that is no workflow."""


class Settled(NamedTuple):
    """The end of a program's call or timer."""

    number: int
    """The program's own number of it."""
    value: Any = None
    error: str = ""
    timed_out: bool = False
    asked: Asked | None = None
    """None: a timer."""


class Awaited:
    """All that a program awaits, by its own numbers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.calls: dict[str, tuple[int, Asked]] = {}
        """Open calls by the desk's ids, in order."""
        self._timers: list[tuple[float, int, str]] = []
        """Times with the number of a timer, or with the desk's id of a call whose time is then up."""

    def ask(self, number: int, asked: Asked) -> None:
        """Ask the desk for a call."""
        call_id = self._desk.ask(asked.tool, asked.given, asked.marks)
        self.calls[call_id] = number, asked
        if asked.timeout is not None:
            self._wake_at(asked.timeout, number, call_id)

    def sleep(self, number: int, seconds: float) -> None:
        """Start a timer."""
        self._wake_at(seconds, number, "")

    def _wake_at(self, seconds: float, number: int, call_id: str) -> None:
        heapq.heappush(self._timers, (self._desk.now + min(max(0.0, seconds), LONGEST_SECONDS), number, call_id))

    def settle(self, call_id: str, text: str, *, failed: bool) -> Settled | None:
        """Take a call's result. None if it is no longer awaited, or if the call is made again."""
        found = self.calls.pop(call_id, None)
        if found is None:
            return None
        number, asked = found
        if asked.form == "command":
            return Settled(number, {"passed": not failed, "output": text}, asked=asked)
        if asked.tool == EVENT and text == event_missed(asked.given["event"], WEEK_SECONDS):
            return Settled(number, error=text, timed_out=True, asked=asked)
        if failed:
            return self._fail(number, asked, text, timed_out=False)
        return Settled(number, read_task(text) if asked.form == "data" else text, asked=asked)

    def _fail(self, number: int, asked: Asked, why: str, *, timed_out: bool) -> Settled | None:
        if asked.retry < 1:
            return Settled(number, error=why, timed_out=timed_out, asked=asked)
        self.ask(number, asked._replace(retry=asked.retry - 1))
        return None

    def due(self) -> Iterator[Settled]:
        """Yield timers and calls that are due by the desk's time, one at a time. Such a call is given up."""
        while self.until is not None and self.until <= self._desk.now:
            _, number, call_id = heapq.heappop(self._timers)
            if not call_id:
                yield Settled(number)
            else:
                _, asked = self.calls.pop(call_id)
                self._desk.drop(call_id)
                why = f"it took longer than {asked.timeout:g} s"
                if (answer := self._fail(number, asked, why, timed_out=True)) is not None:
                    yield answer

    @property
    def until(self) -> float | None:
        """The earliest time of a timer, or of the end of a call's time."""
        while self._timers and self._timers[0][2] and self._timers[0][2] not in self.calls:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None


# -- the calls of programs ----------------------------------------------------------------------------------------


def ask_agent(
    prompt: str,
    *,
    type: str | None = None,
    returns: Any = None,
    label: str = "",
    retry: int = 0,
    timeout: float | None = None,
    phase: str = "",
    allowance: Mapping[str, Any] | None = None,
    **options: Any,
) -> Asked:
    """Ask for an agent. `options` are `merge` and further parameters of the tool `Agent`. Raises `TypeError`."""
    if not isinstance(prompt, str):
        raise TypeError(f"agent() takes a text as its prompt, not {prompt!r:.80}")
    given = {"description": str(label or " ".join(prompt.split()[:6]))[:80] or "work", "prompt": prompt}
    given |= {"subagent_type": type} if type else {}
    given |= {"result_schema": returns} if returns is not None else {}
    part = None if allowance is None else Allowance(str(allowance["name"]), float(allowance["usd"]))
    marks = CallMarks(phase, part, bool(options.pop("merge", True)))
    given |= {name: value for name, value in options.items() if value is not None}
    return Asked(SPAWN, given, "text" if returns is None else "data", int(retry), _seconds(timeout), marks, True)


def ask_workflow(name: str, task: Any = "", *, timeout: float | None = None) -> Asked:
    """Ask for another workflow."""
    given = {"description": f"workflow {name}", "subagent_type": name, "prompt": as_text(task) or "{}"}
    return Asked(SPAWN, given, "data", timeout=_seconds(timeout))


def ask_merge(name: str, *, strategy: str = CLEAN) -> Asked:
    """Ask for the merge of an agent's copy into the workflow's files."""
    return Asked(MERGE, {"agent_id": name, "strategy": strategy})


def ask_rows(path: str) -> Asked:
    """Ask for the rows of a file."""
    return Asked(READ_ROWS, {"file_path": path}, "data")


def ask_part(rows: Sequence[Line], template: str, limit: int, options: Mapping[str, Any]) -> Asked:
    """Ask for an agent for each row of a part, with the options of `ask_agent`. Raises `TypeError`."""
    agent = ask_agent("", **options)
    given = {name: value for name, value in agent.given.items() if name not in ("prompt", "description")}
    given |= {"label": options["label"]} if options.get("label") else {}
    given |= {"retry": agent.retry} if agent.retry else {}
    given |= {"timeout": agent.timeout} if agent.timeout is not None else {}
    given |= {} if agent.marks.merge else {"merge": False}
    return Asked(MAP_ROWS, describe_part(rows, template, int(limit), given), "data", marks=agent.marks)


def ask_tool(tool: str, given: dict[str, Any] | None = None) -> Asked:
    """Ask for a tool's result."""
    return Asked(tool, dict(given or {}))


def ask_command(command: str, *, timeout: float | None = None) -> Asked:
    """Ask whether a command passes."""
    limit = {} if timeout is None else {"timeout": int(float(timeout) * 1000)}
    return Asked(SHELL, {"command": command, **limit}, "command")


def ask_person(question: str, choices: Sequence[str] = (), *, timeout: float | None = None) -> Asked:
    """Ask the job's person."""
    return Asked(QUESTION, {"question": question, "options": list(choices)}, timeout=_seconds(timeout))


def ask_event(key: str, *, timeout: float | None = None) -> Asked:
    """Ask for an external event."""
    return Asked(EVENT, {"event": key, "timeout_seconds": WEEK_SECONDS}, timeout=_seconds(timeout))


def ask_message(to: str, message: str) -> Asked:
    """Ask for a message to another agent."""
    return Asked(MESSAGE, {"to": to, "message": message})


def _seconds(given: Any) -> float | None:
    return None if given is None else float(given)


ASKS: dict[str, Callable[..., Asked]] = {
    "agent": ask_agent,
    "workflow": ask_workflow,
    "merge": ask_merge,
    "read_rows": ask_rows,
    "_map_part": ask_part,
    "call": ask_tool,
    "check": ask_command,
    "ask": ask_person,
    "event": ask_event,
    "send": ask_message,
}
"""A program's function → the call that it asks for."""
