"""The front end for Python that models write: Monty's interpreter, in a process of its own, confined in memory and time."""

from __future__ import annotations

import contextlib
import re
import time
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from swarm.workflows.awaited import ASKS, Awaited, Settled
from swarm.workflows.desk import Desk, ProgramEnd, end_with, fail_with
from swarm.workflows.results import as_data, read_task
from swarm.workflows.rows import part_rows

LIMITS: Any = {"max_turn_duration_secs": 2.0, "max_memory": 64 << 20, "max_suspensions": 1_000_000}
TURN_SECONDS = 5.0
"""Most time from a result to the next wait, with the calls between: Monty's own limit begins again at each call."""
_AT_ONCE = {"phase", "log", "progress", "now", "spent_usd", "spent_tokens", "left_usd", "split_rows"}
_WAITING = {*ASKS, "sleep", "sleep_until"}


class MontyProgram:
    """One run of a text."""

    is_light = False

    def __init__(self, source: str, desk: Desk, task: str) -> None:
        self._source, self._desk, self._given = source, desk, task
        self._stack = contextlib.ExitStack()
        self._snapshot: Any = None
        self._awaited = Awaited(desk)
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
        for answer in self._awaited.due():
            if self.ended is None:
                self._resume(answer)

    def settle(self, call_id: str, text: str, *, failed: bool) -> None:
        """Give it a call's result, and continue until it waits."""
        self._end = time.monotonic() + TURN_SECONDS
        if (answer := self._awaited.settle(call_id, text, failed=failed)) is not None:
            self._resume(answer)

    @property
    def until(self) -> float | None:
        """The earliest time that it waits for."""
        return self._awaited.until

    @property
    def place(self) -> str:
        """The line of its source that it waits at; empty if unknown."""
        position = getattr(self._snapshot, "position", None)
        return "" if position is None else f"line {self._source[: position.start].count(chr(10)) + 1}"

    def close(self) -> None:
        """Drop it, with its process."""
        self._desk.closed = True
        with contextlib.suppress(Exception):
            self._stack.close()

    def _resume(self, answer: Settled) -> None:
        snapshot, result = self._snapshot, dict[str, Any]()
        if answer.error:
            result = {"exc_type": "TimeoutError" if answer.timed_out else "RuntimeError", "message": answer.error}
        else:
            result = {"return_value": answer.value}
        self._go_on(lambda: snapshot.resume({answer.number: result}))

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
                self._awaited.sleep(snapshot.call_id, float(args[0] if args else given["seconds"]))
            elif name == "sleep_until":
                self._awaited.sleep(snapshot.call_id, float(args[0] if args else given["moment"]) - self._desk.now)
            elif name in ASKS:
                self._awaited.ask(snapshot.call_id, ASKS[name](*args, **given))
            else:
                return {"exc_type": "NameError", "message": f"name {name!r} is not defined"}
        except (TypeError, KeyError, ValueError, IndexError, OverflowError) as error:
            return {"exc_type": "TypeError", "message": re.sub(r"^\S+\(\)", f"{name}()", str(error))}
        return {"future": ...}

    def _do(self, name: str, *given: Any, **named: Any) -> Any:
        desk, told = self._desk, [*given, *named.values()]
        match name:
            case "phase" | "log":
                desk.note("phase" if name == "phase" else "log", str(told[0]))
            case "progress":
                desk.note("progress", f"{told[0]} of {told[1]}")
            case "now":
                return desk.now
            case "split_rows":
                return list(part_rows(told[0]))
            case "spent_usd":
                return desk.spent_usd
            case "spent_tokens":
                return desk.spent_tokens
            case "left_usd" if told:
                return desk.left_usd(told[0])
            case "left_usd" if desk.limits.budget_usd is not None:
                return max(0.0, desk.limits.budget_usd - desk.spent_usd)
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


@cache
def read_text(name: str) -> str:
    """Return the prelude (`prelude`), or what programs can use (`stubs`)."""
    return files("swarm.workflows").joinpath(f"monty_{name}.txt").read_text(encoding="utf-8")


def _never(*_args: Any, **_given: Any) -> None:
    raise AssertionError("the front end carries out each call")
