"""The front end for Python that models write: Monty's interpreter, in a process of its own, confined in memory and time."""

from __future__ import annotations

import contextlib
import heapq
import re
import time
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from swarm.definitions.tools import EVENT, MESSAGE, QUESTION, SHELL, SPAWN
from swarm.workflows.desk import Desk, ProgramEnd, end_with, fail_with
from swarm.workflows.results import as_data, as_text, read_task

LIMITS: Any = {"max_turn_duration_secs": 2.0, "max_memory": 64 << 20, "max_suspensions": 1_000_000}
TURN_SECONDS = 5.0
"""Most time from a result to the next wait, with the calls between: Monty's own limit begins again at each call."""
_LONGEST_SECONDS = 1e9
_AT_ONCE = {"phase", "log", "progress", "now", "spent_usd", "spent_tokens"}
_WAITING = {"agent", "workflow", "call", "ask", "event", "sleep", "send", "check"}


class MontyProgram:
    """One run of a text."""

    is_light = False

    def __init__(self, source: str, desk: Desk, task: str) -> None:
        self._source, self._desk, self._given = source, desk, task
        self._stack = contextlib.ExitStack()
        self._snapshot: Any = None
        self._waiting: dict[str, tuple[int, bool]] = {}
        """Desk's id → Monty's id of an awaited call, and whether its result is JSON."""
        self._timers: list[tuple[float, int]] = []
        self._end = 0.0
        """The end of the turn, on this process's clock."""
        self.ended: ProgramEnd | None = None

    def start(self) -> None:
        """Run from the beginning until it waits."""
        from pydantic_monty import Monty

        try:
            pool = self._stack.enter_context(Monty())
            # The clock stands still at the beginning; `now()` moves with the journal.
            policy: Any = {
                "datetime": datetime.fromtimestamp(self._desk.now, UTC),
                "random_start": {"seed": self._desk.seed},
                "sleep": "call_host",
            }
            checkout = pool.checkout(script_name="workflow.py", limits=LIMITS, os_policy=policy)
            session = self._stack.enter_context(checkout)
            session.feed_run(read_text("prelude"))
            given = {"args": read_task(self._given)}
            lookup = dict.fromkeys([*_AT_ONCE, *_WAITING], _never)
            self._end = time.monotonic() + TURN_SECONDS
            self._go_on(lambda: session.feed_start(self._source, inputs=given, external_lookup=lookup))
        except Exception as error:
            self._fail(error)

    def tick(self) -> None:
        """Continue what waited for the desk's time."""
        self._end = time.monotonic() + TURN_SECONDS
        while self.ended is None and self._timers and self._timers[0][0] <= self._desk.now:
            _, number = heapq.heappop(self._timers)
            self._resume(number, {"return_value": None})

    def settle(self, call_id: str, text: str, *, failed: bool) -> None:
        """Give it a call's result, and continue until it waits."""
        number, is_data = self._waiting.pop(call_id)
        self._end = time.monotonic() + TURN_SECONDS
        if failed:
            self._resume(number, {"exc_type": "RuntimeError", "message": text})
        else:
            self._resume(number, {"return_value": read_task(text) if is_data else text})

    @property
    def until(self) -> float | None:
        """The earliest time that it waits for."""
        return self._timers[0][0] if self._timers else None

    def close(self) -> None:
        """Drop it, with its process."""
        self._desk.closed = True
        with contextlib.suppress(Exception):
            self._stack.close()

    def _resume(self, number: int, result: dict[str, Any]) -> None:
        snapshot = self._snapshot
        self._go_on(lambda: snapshot.resume({number: result}))

    def _go_on(self, move: Any) -> None:
        """Carry on until all branches wait, or to the end."""
        from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyComplete, NameLookupSnapshot

        try:
            snapshot = move()
            while not isinstance(snapshot, MontyComplete | FutureSnapshot):
                if time.monotonic() > self._end:
                    raise RuntimeError(f"the workflow ran for {TURN_SECONDS:g} s without waiting for anything")
                if isinstance(snapshot, NameLookupSnapshot):
                    snapshot = snapshot.resume_auto()
                elif isinstance(snapshot, FunctionSnapshot):
                    snapshot = snapshot.resume(self._take(snapshot))
                else:
                    raise RuntimeError(f"a workflow cannot use {type(snapshot).__name__}")
            self._snapshot = snapshot
            if isinstance(snapshot, MontyComplete):
                self.ended = end_with(as_data(snapshot.output))
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        shown = getattr(error, "display", None)
        self.ended = fail_with(str(shown() if shown is not None else error))

    def _take(self, snapshot: Any) -> Any:
        """Carry out a call of the host's: at once, or as a call that is awaited."""
        name, args, given = snapshot.function_name, snapshot.args, dict(snapshot.kwargs)
        try:
            if name in _AT_ONCE:
                return {"return_value": self._do(name, *args, **given)}
            if name in ("sleep", "asyncio.sleep"):
                seconds = min(float(args[0] if args else given["seconds"]), _LONGEST_SECONDS)
                heapq.heappush(self._timers, (self._desk.now + seconds, snapshot.call_id))
            elif name in _WAITING:
                tool, asked, is_data = _ASKS[name](*args, **given)
                self._waiting[self._desk.ask(tool, asked)] = (snapshot.call_id, is_data)
            else:
                return {"exc_type": "NameError", "message": f"name {name!r} is not defined"}
        except (TypeError, KeyError, ValueError, IndexError, OverflowError) as error:
            return {"exc_type": "TypeError", "message": re.sub(r"^\S+\(\)", f"{name}()", str(error))}
        return {"future": ...}

    def _do(self, name: str, *given: Any) -> Any:
        desk = self._desk
        match name:
            case "phase" | "log":
                desk.note("phase" if name == "phase" else "log", str(given[0]))
            case "progress":
                desk.note("progress", f"{given[0]} of {given[1]}")
            case "now":
                return desk.now
            case "spent_usd":
                return desk.spent_usd
            case "spent_tokens":
                return desk.spent_tokens
        return None


def explain_faults(source: str) -> str:
    """Check a text's syntax and types; it is not run. Returns its faults, a line each."""
    from pydantic_monty import Monty, MontyError

    try:
        with Monty() as pool:
            checked = pool.checkout(
                script_name="workflow.py",
                limits=LIMITS,
                type_check=True,
                type_check_stubs=read_text("stubs"),
                type_check_format="concise",
            )
            with checked as session:
                # The check comes first, and the first call ends the run.
                session.feed_start(source, inputs={"args": {}}, external_lookup={})
    except MontyError as error:
        if type(error).__name__ in ("MontyTypingError", "MontySyntaxError"):
            return str(error.display() if hasattr(error, "display") else error)
    return ""


Asked = tuple[str, dict[str, Any], bool]


def _ask_agent(prompt: str, *, type: str | None = None, returns: Any = None, label: str = "", **options: Any) -> Asked:
    if not isinstance(prompt, str):
        raise TypeError(f"agent() takes a text as its prompt, not {prompt!r:.80}")
    given = {"description": label or " ".join(prompt.split()[:6])[:80] or "work", "prompt": prompt}
    given |= {"subagent_type": type} if type else {}
    given |= {"result_schema": returns} if returns is not None else {}
    return SPAWN, given | {name: value for name, value in options.items() if value is not None}, returns is not None


def _ask_workflow(name: str, task: Any = "") -> Asked:
    given = {"description": f"workflow {name}", "subagent_type": name, "prompt": as_text(task) or "{}"}
    return SPAWN, given, True


_ASKS: dict[str, Any] = {
    "agent": _ask_agent,
    "workflow": _ask_workflow,
    "call": lambda tool, given: (tool, dict(given), False),
    "check": lambda command: (SHELL, {"command": command}, False),
    "ask": lambda question, choices=(): (QUESTION, {"question": question, "options": list(choices)}, False),
    "event": lambda key: (EVENT, {"event": key, "timeout_seconds": 7 * 86_400}, False),
    "send": lambda to, message: (MESSAGE, {"to": to, "message": message}, False),
}


@cache
def read_text(name: str) -> str:
    """Return the prelude (`prelude`), or what programs can use (`stubs`)."""
    return files("swarm.workflows").joinpath(f"monty_{name}.txt").read_text(encoding="utf-8")


def _never(*_args: Any, **_given: Any) -> None:
    raise AssertionError("the front end carries out each call")
