"""The front end for Claude Code's scripts: its dialect in QuickJS, confined to memory, stack and time of its own."""

from __future__ import annotations

import heapq
import json
import re
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from swarm.core.errors import ConfigurationError
from swarm.core.plain import clean
from swarm.definitions.tools import SPAWN
from swarm.workflows.desk import Desk, ProgramEnd
from swarm.workflows.results import as_text, read_task

MEMORY_BYTES = 64 << 20
STACK_BYTES = 512 << 10
TURN_SECONDS = 2.0
"""Most time of one turn, from a result to the next wait, in seconds of the processor."""
META = re.compile(r"^((?:\s|//[^\n]*\n|/\*.*?\*/)*)export\s+const\s+meta\b", re.S)
_OPTIONS = {
    "schema": "result_schema",
    "agentType": "subagent_type",
    "model": "model",
    "effort": "effort",
    "isolation": "isolation",
}


class JavaScriptProgram:
    """One run of a script."""

    def __init__(self, source: str, desk: Desk, task: str) -> None:
        self._source, self._desk, self._given = source, desk, task
        self._calls: dict[str, dict[str, Any]] = {}
        """Awaited calls by the desk's id."""
        self._timers: list[tuple[float, int]] = []
        self._end = 0.0
        """The end of the turn, in seconds of the processor."""
        self.ended: ProgramEnd | None = None

    def start(self) -> None:
        """Run from the beginning until it waits."""
        self._turn(self._begin)

    def _begin(self) -> None:
        import quickjs

        body = prepare_script(self._source)
        context = self._context = quickjs.Context()
        context.set_memory_limit(MEMORY_BYTES)
        context.set_max_stack_size(STACK_BYTES)
        context.set_time_limit(TURN_SECONDS)
        context.eval(_prelude())
        self._take, self._settle = context.get("$take"), context.get("$settle")
        args = json.dumps(read_task(self._given)) if self._given else "undefined"
        context.eval(
            f"globalThis.args = {args}; {{ const start = $start; delete globalThis.$take; delete globalThis.$settle; "
            "delete globalThis.$start; globalThis.$run = start; }"
        )
        context.eval(f"$run(async () => {{ delete globalThis.$run; {body}\n}});")

    def tick(self) -> None:
        """Continue what waited for the desk's time."""
        self._turn(self._ring)

    def settle(self, call_id: str, text: str, *, failed: bool) -> None:
        """Give it a call's result. A failed agent is null, as in Claude Code, and its reason a line of the log."""
        call = self._calls.pop(call_id, None)
        if call is None:
            return
        is_agent = call["kind"] == "agent"
        if failed:
            self._desk.note("log", text)
            value = None if is_agent else text
        else:
            value = text if is_agent and "schema" not in call["opts"] else read_task(text)
        self._turn(lambda: self._tell(call["id"], ok=is_agent or not failed, value=value))

    @property
    def until(self) -> float | None:
        """The earliest time that it waits for."""
        return self._timers[0][0] if self._timers else None

    def close(self) -> None:
        """Drop it."""
        self._desk.closed = True

    def _turn(self, act: Callable[[], None]) -> None:
        """Act, and run until it waits. Whatever fails ends the program: it can change all that the runtime's own script uses."""
        # The engine's own limit is for one job, and jobs and timers can follow each other for ever.
        self._end = time.process_time() + TURN_SECONDS
        try:
            act()
            self._pump()
        except Exception as error:
            self.ended = ProgramEnd(error=str(error) if _tells_all(error) else f"{type(error).__name__}: {error}")

    def _ring(self) -> None:
        while self.ended is None and self._timers and self._timers[0][0] <= self._desk.now:
            _, number = heapq.heappop(self._timers)
            self._tell(number, ok=True, value=None)
            self._pump()

    def _tell(self, number: int, *, ok: bool, value: Any) -> None:
        self._settle(number, ok, json.dumps(value), self._desk.spent_tokens, self._desk.limits.max_tokens)

    def _pump(self) -> None:
        """Run until it waits, and pass on its calls."""
        while self._context.execute_pending_job():
            if time.process_time() > self._end:
                raise ConfigurationError(f"the script ran for {TURN_SECONDS:g} s without waiting for anything")
        told = clean(json.loads(self._take()))
        for kind, text in told["notes"]:
            self._desk.note(kind, text)
        for call in told["calls"]:
            self._ask(call)
        if told["done"] is not None:
            self.ended = ProgramEnd(told["done"].get("value"), told["done"].get("error", ""))

    def _ask(self, call: dict[str, Any]) -> None:
        if call["kind"] == "timer":
            heapq.heappush(self._timers, (self._desk.now + call["seconds"], call["id"]))
            return
        if call["kind"] == "workflow":
            args = call.get("args")
            given = {"description": f"workflow {call['name']}", "subagent_type": call["name"]}
            given["prompt"] = "{}" if args is None else as_text(args)
        else:
            opts, prompt = call["opts"], call["prompt"] or "(The task is empty.)"
            given = {name: opts[key] for key, name in _OPTIONS.items() if opts.get(key) not in (None, "inherit")}
            given |= {"description": str(opts.get("label") or " ".join(prompt.split()[:6]))[:80], "prompt": prompt}
        self._calls[self._desk.ask(SPAWN, given)] = call


def prepare_script(source: str) -> str:
    """Return the script's body. Raises `ConfigurationError` for one that is not in the dialect."""
    if not META.match(source):
        raise ConfigurationError("a script begins with `export const meta = {…}`")
    return META.sub(lambda found: f"{found[1]}const meta", source, count=1)


@cache
def _prelude() -> str:
    return files("swarm.workflows").joinpath("javascript.js").read_text(encoding="utf-8")


def _tells_all(error: Exception) -> bool:
    import quickjs

    return isinstance(error, quickjs.JSException | ConfigurationError)
