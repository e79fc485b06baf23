"""The front end for Claude Code's scripts: its dialect in QuickJS, in a process of its own, confined in memory, stack and time."""

from __future__ import annotations

import contextlib
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
from swarm.workflows import interpreter
from swarm.workflows.awaited import ASKS, Awaited, Settled, ask_agent, ask_part
from swarm.workflows.desk import Desk, ProgramEnd, end_with, fail_with
from swarm.workflows.results import read_task

MOST_TIMERS = 10_000
"""Most timers that ring at one moment, one after the other."""
ANSWER_SECONDS = 60.0
"""Most time until the interpreter answers, on the clock of a loaded host."""
META = re.compile(r"^((?:\s|//[^\n]*\n|/\*.*?\*/)*)export\s+const\s+meta\b", re.S)
_LINE = re.compile(r":(\d+):\d+\)?$")
_MOST_STACK_CHARACTERS = 10_000
_MOST_HEAD = 100
"""Most bytes of an answer's first line."""
_FRAMES = 2
"""Frames of a call's stack that are the runtime's own."""
_OPTIONS = {
    **{"schema": "returns", "agentType": "type", "label": "label"},
    **{
        name: name
        for name in ("model", "effort", "isolation", "retry", "timeout", "mode", "name", "cwd", "allowance", "merge")
    },
}
"""Option of a script's agent → the option of `ask_agent`."""


class JavaScriptProgram:
    """One run of a script."""

    is_light = False

    def __init__(self, source: str, desk: Desk, task: str) -> None:
        self._source, self._desk, self._given = source, desk, task
        self._interpreter: _Interpreter | None = None
        self._awaited = Awaited(desk)
        self._stacks: dict[int, str] = {}
        """The stack of each open call, by its number."""
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
        if (answer := self._awaited.settle(call_id, text, failed=failed)) is not None:
            self._turn(lambda: self._settle(answer))

    @property
    def until(self) -> float | None:
        """The earliest time that it waits for."""
        return self._awaited.until

    @property
    def place(self) -> str:
        """The line of its source that it waits at: that of its first open call; empty if unknown."""
        stacks = (self._stacks.get(number, "").split("\n") for number, _ in self._awaited.calls.values())
        found = next((_LINE.search(lines[_FRAMES]) for lines in stacks if len(lines) > _FRAMES), None)
        return "" if found is None else f"line {found[1]}"

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
        for rung, answer in enumerate(self._awaited.due()):
            if rung >= MOST_TIMERS:
                raise ConfigurationError(f"the script has set {MOST_TIMERS:,} timers without waiting for anything")
            if self.ended is None:
                self._settle(answer)

    def _settle(self, answer: Settled) -> None:
        """Pass on an answer. A failed agent is null, as in Claude Code, and its reason a line of the log."""
        self._stacks.pop(answer.number, None)
        is_agent, desk = answer.asked is not None and answer.asked.is_agent, self._desk
        if answer.error:
            desk.note("log", answer.error)
        value = answer.value if not answer.error or is_agent else answer.error
        told = {"id": answer.number, "ok": not answer.error or is_agent, "value": value}
        self._tell(json.dumps({**told, "spent": desk.spent_tokens, "total": desk.limits.max_tokens}))

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
        number, opts = call["id"], dict(call.get("opts") or {})
        self._stacks[number] = str(call.get("stack"))[:_MOST_STACK_CHARACTERS]
        if call["kind"] == "timer":
            self._awaited.sleep(number, float(call["seconds"]))
            return
        of_agent = {name: opts[key] for key, name in _OPTIONS.items() if opts.get(key) not in (None, "inherit")}
        if call["kind"] == "_map_part":
            rows, template, limit = call["given"]
            asked = ask_part(rows, template, limit, {**of_agent, "phase": str(opts.get("phase") or "")})
        elif call["kind"] == "agent":
            known = {**of_agent, "phase": str(opts.get("phase") or "")}
            asked = ask_agent(*(call["given"] or ["(The task is empty.)"]), **known)
        else:
            known = {name: opts[name] for name in ("timeout", "strategy") if name in opts}
            asked = ASKS[call["kind"]](*call["given"], **known)
        self._awaited.ask(number, asked)


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
        while b"\n" not in told[:_MOST_HEAD]:
            if len(told) >= _MOST_HEAD:
                raise ConfigurationError("the script has broken its interpreter, which answers without end")
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
        left = end - time.monotonic()
        told = os.read(source, 1 << 20) if left > 0 and ready.poll(left * 1_000) else b""
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
