"""The front end for Claude Code's scripts: its dialect in QuickJS, in a process of its own, confined in memory, stack and time."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swarm.core.errors import ConfigurationError
from swarm.core.plain import clean, load_json
from swarm.definitions.tools import SPAWN
from swarm.workflows import interpreter
from swarm.workflows.desk import Desk, ProgramEnd, end_with, fail_with
from swarm.workflows.results import as_text, read_task

MOST_TIMERS = 10_000
"""Most timers that ring at one moment, one after the other."""
_LONGEST_SECONDS = 1e9
ANSWER_SECONDS = 60.0
"""Most time until the interpreter answers, on the clock of a loaded host."""
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

    is_light = False

    def __init__(self, source: str, desk: Desk, task: str) -> None:
        self._source, self._desk, self._given = source, desk, task
        self._interpreter: _Interpreter | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        """Awaited calls by the desk's id."""
        self._timers: list[tuple[float, int]] = []
        self.ended: ProgramEnd | None = None

    def start(self) -> None:
        """Run from the beginning until it waits."""
        self._turn(self._begin)

    def _begin(self) -> None:
        body = prepare_script(self._source)
        self._interpreter = _Interpreter(_prelude())
        args = json.dumps(read_task(self._given)) if self._given else "undefined"
        self._tell(
            f"globalThis.args = {args}; {{ const start = $start; delete globalThis.$take; delete globalThis.$settle; "
            "delete globalThis.$start; globalThis.$run = start; } "
            f"$run(async () => {{ delete globalThis.$run; {body}\n}});"
        )

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
        self._turn(lambda: self._settle(call["id"], ok=is_agent or not failed, value=value))

    @property
    def until(self) -> float | None:
        """The earliest time that it waits for."""
        return self._timers[0][0] if self._timers else None

    def close(self) -> None:
        """Drop it, with its process."""
        self._desk.closed = True
        if self._interpreter is not None:
            self._interpreter.close()

    def _turn(self, act: Callable[[], None]) -> None:
        """Act, and run until it waits. Whatever fails ends the program: a script can tell anything."""
        try:
            act()
        except Exception as error:
            told = isinstance(error, ConfigurationError)
            self.ended = fail_with(str(error) if told else f"{type(error).__name__}: {error}")

    def _ring(self) -> None:
        # Timers can follow each other for ever within one moment.
        rung = 0
        while self.ended is None and self._timers and self._timers[0][0] <= self._desk.now:
            if (rung := rung + 1) > MOST_TIMERS:
                raise ConfigurationError(f"the script has set {MOST_TIMERS:,} timers without waiting for anything")
            _, number = heapq.heappop(self._timers)
            self._settle(number, ok=True, value=None)

    def _settle(self, number: int, *, ok: bool, value: Any) -> None:
        desk = self._desk
        given = {"id": number, "ok": ok, "value": value, "spent": desk.spent_tokens, "total": desk.limits.max_tokens}
        self._tell(json.dumps(given))

    def _tell(self, text: str) -> None:
        """Have the script run until it waits, and pass on its calls."""
        assert self._interpreter is not None, "it has begun"
        told = clean(load_json(self._interpreter.answer(text)))
        for kind, text in told["notes"]:
            self._desk.note(kind, text)
        for call in told["calls"]:
            self._ask(call)
        if told["done"] is not None:
            done = told["done"]
            self.ended = fail_with(str(done["error"])) if "error" in done else end_with(done["value"])

    def _ask(self, call: dict[str, Any]) -> None:
        if call["kind"] == "timer":
            seconds = min(max(0.0, float(call["seconds"])), _LONGEST_SECONDS)
            heapq.heappush(self._timers, (self._desk.now + seconds, int(call["id"])))
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


class _Interpreter:
    """The interpreter's process. A script that broke it can answer anything."""

    def __init__(self, prelude: str) -> None:
        found = find_spec("_quickjs")
        assert found is not None and found.origin is not None, "usable languages are checked before"
        # It inherits no environment and no open file; it ends with its pipe, and with its share of the processor.
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                interpreter.__file__,
                str(interpreter.TURN_SECONDS),
                str(Path(found.origin).parent),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )

        self._send(prelude)

    def answer(self, text: str) -> str:
        """Send a text, and return the script's answer. Raises `ConfigurationError` if it fails, ends, or answers too late."""
        self._send(text)
        end, told = time.monotonic() + ANSWER_SECONDS, b""
        while b"\n" not in told[:100]:
            told += self._receive(end)
        head, _, body = told.partition(b"\n")
        size, mark = head.decode().split()
        parts, left = [body], min(int(size), interpreter.MOST_TOLD * 4) - len(body)
        while left > 0:
            parts.append(self._receive(end))
            left -= len(parts[-1])
        found = b"".join(parts).decode("utf-8", "surrogatepass")
        if mark == interpreter.FAILED:
            raise ConfigurationError(found)
        return found

    def _send(self, text: str) -> None:
        sent = text.encode("utf-8", "surrogatepass")
        assert self._process.stdin is not None, "it is a pipe"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"%d\n%b" % (len(sent), sent))
            self._process.stdin.flush()

    def _receive(self, end: float) -> bytes:
        assert self._process.stdout is not None, "it is a pipe"
        ready, source = select.poll(), self._process.stdout.fileno()
        ready.register(source, select.POLLIN)
        told = os.read(source, 1 << 20) if ready.poll(max(0.0, end - time.monotonic()) * 1_000) else b""
        if not told:
            raise ConfigurationError(self._explain_end())
        return told

    def _explain_end(self) -> str:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "the script answers too late or too much, so its interpreter was ended"
        if code == -signal.SIGXCPU:
            return f"the script ran for {interpreter.TURN_SECONDS:g} s without waiting for anything"
        return f"the script has ended its interpreter (code {code})"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "both are pipes"
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()
