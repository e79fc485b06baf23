"""Programs in sandboxes: both dialects as they are meant, and what hostile ones reach, which is nothing, within bounds.

Tests of swarm/workflows/javascript.py, swarm/workflows/interpreter.py, swarm/workflows/monty.py, swarm/workflows/desk.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from swarm.definitions.model import AgentDefinition
from swarm.definitions.workflow_files import make_definition
from swarm.workflows.desk import Desk
from swarm.workflows.front_ends import make_program
from swarm.workflows.monty import LIMITS
from swarm.workflows.trial import TriedCall, fail, try_workflow


def answer(call: TriedCall) -> str:
    return "done"


# -- scripts in the dialect of Claude Code ---------------------------------------------------------------------

META = "export const meta = { name: 'look-around', description: 'Looks around.' }\n"


def script(body: str) -> AgentDefinition:
    return make_definition(META + body, ".js", "x", "x.js")


def test_a_script_of_claude_code_runs_with_its_globals() -> None:
    pytest.importorskip("quickjs")
    looks = script(
        """
phase("look");
const found = await pipeline(args.files, f => agent(`Review ${f}`, {label: f, schema: {type: "object"}}), 
  (r, f, n) => ({f, n, bugs: r.bugs}));
const votes = await parallel(found.filter(Boolean).map(x => () => agent(`Refute ${x.f}`)));
await new Promise(done => setTimeout(done, 1500));
const inner = await workflow("votes", {rounds: 2});
log("left", budget.remaining());
return {found, votes, inner: inner.said};
"""
    )

    def say(call: TriedCall) -> Any:
        if call.prompt == "Review b":
            fail("it refused")
        return (
            {"said": 2}
            if call.given.get("subagent_type") == "votes"
            else {"bugs": 3}
            if "Review" in call.prompt
            else "no"
        )

    tried = try_workflow(looks, say, {"files": ["a", "b"]})
    assert tried.value == {"found": [{"f": "a", "n": 0, "bugs": 3}, None], "votes": ["no"], "inner": 2}, tried.error
    assert tried.notes == ["phase: look", "log: it refused", "log: left null"] and tried.seconds == 1.5
    assert (looks.name, looks.description) == ("look-around", "Looks around.")


def test_a_script_may_speak_of_imports_cut_a_text_anywhere_and_wait_for_ever() -> None:
    pytest.importorskip("quickjs")
    half = "\\ud83d"
    body = f'log("{half}"); const got = await agent("check each import (and export)"); setTimeout(log, Infinity); return got + "{half}"'
    tried = try_workflow(script(body), lambda call: call.prompt)
    assert (tried.value, tried.notes) == ("check each import (and export)\ufffd", ["log: \ufffd"]), tried.error


# -- Python that models write ----------------------------------------------------------------------------------

LOOK = """
phase("look")
async def look(file):
    found = await agent(f"Review {file}", returns={"type": "object"}, label=file)
    votes = await parallel(*[agent(f"Refute {file} {i}") for i in range(2)])
    return [found["bugs"], sum(1 for vote in votes if vote.ok)]
results = await pipeline(args["files"], look, limit=2)
await sleep(5)
inner = await workflow("votes", {"rounds": 2})
log(f"done at {now() - start:g}")
{"found": [one.value for one in results], "bad": [one.error for one in results if not one.ok], "inner": inner["said"]}
"""


def test_python_of_a_model_runs_in_its_interpreter_and_is_checked_before() -> None:
    monty = pytest.importorskip("swarm.workflows.monty")
    pytest.importorskip("pydantic_monty")

    def say(call: TriedCall) -> Any:
        if call.prompt in ("Review b", "Refute a 1"):
            fail("it refused")
        return (
            {"said": 2}
            if call.given.get("subagent_type") == "votes"
            else {"bugs": 3}
            if "Review" in call.prompt
            else "no"
        )

    source = f"import time\nstart = time.time()\n{LOOK}"
    tried = try_workflow(make_definition(source, ".py", "look", "look.py"), say, {"files": ["a", "b", "c"]})
    assert tried.value == {"found": [[3, 1], None, [3, 2]], "bad": ["it refused"], "inner": 2}, tried.error
    assert tried.notes == ["phase: look", "log: done at 5"] and tried.seconds == 5
    assert monty.explain_faults(source) == ""
    assert "unknown-argument" in monty.explain_faults('await agent("x", agentType="a")')
    assert "invalid-syntax" in monty.explain_faults("def f(:")


# -- hostile ones ------------------------------------------------------------------------------------------------

HOSTILE_SCRIPTS = [
    # Outside
    ("return Date.now()", "Date.now() is not available"),
    ("return Math.random()", "Math.random() is not available"),
    ("return new Date()", "the current date is not available"),
    ("return new (new Date(0).constructor)()", "the current date is not available"),
    ("return (() => {}).constructor('return 1')()", "TypeError"),
    ("return (async () => {}).constructor('return 1')()", "TypeError"),
    ("return Reflect.getPrototypeOf(function* () {}).constructor('yield 1')", "TypeError"),
    ("return eval('1')", "eval is not defined"),
    ("return require('fs')", "require is not defined"),
    ("return process.env.HOME", "process is not defined"),
    ("return std.getenv('HOME')", "std is not defined"),
    ("return os.open('/etc/passwd')", "os is not defined"),
    ("return await fetch('http://127.0.0.1')", "fetch is not defined"),
    ("return new WebSocket('ws://127.0.0.1')", "WebSocket is not defined"),
    ("return new Worker('x')", "Worker is not defined"),
    ("import fs from 'fs'", "SyntaxError"),
    ("return await import('fs')", "could not load module"),
    ("return await $take()", "not defined"),
    # Time
    ("for (;;) {}", "interrupted"),
    ("for (;;) await null", "without waiting"),
    ("for (;;) await new Promise((go) => setTimeout(go, 0))", "without waiting"),
    ("return { toJSON() { for (;;) {} } }", "interrupted"),
    ("return /^(a+)+$/.test('a'.repeat(64) + 'b')", "interrupted"),
    ("; [3, 1, 2].sort(() => { for (;;) {} })", "interrupted"),
    ("let a = 3n; for (;;) a = a * a", "too large to allocate"),
    ("return String((3n ** 600_000n) ** 1n).length", "without waiting"),
    # Memory
    ("const a = []; for (;;) a.push(new Array(100000).fill(1))", "out of memory"),
    ("new ArrayBuffer(1 << 30)", "out of memory"),
    ("let s = 'x'; for (;;) s += s", "string too long"),
    ("const f = () => f(); f()", "stack"),
    ("let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a", "stack"),
    ("for (;;) log('x'.repeat(1000))", "out of memory"),
    # What it passes
    ("await agent('x'.repeat(2_000_000))", "at most 1,000,000"),
    ("await agent('x', { schema: { type: 'object', title: 'x'.repeat(2_000_000) } })", "at most 1,000,000"),
    ("return 'x'.repeat(5_000_000)", "at most 4,000,000"),
    ("return 'x'.repeat(20_000_000)", "passes too much"),
    ("await agent('x', 'label')", "takes its options as an object"),
    ("JSON.stringify = () => '[]'; await agent('x')", "TypeError"),
    ("JSON.stringify = () => '{}\\n{}'; await agent('x')", "JSONDecodeError"),
    ("JSON.stringify = () => 5; await agent('x')", "changed the runtime's own functions"),
    (
        """JSON.stringify = () => '{"calls": [{"kind": "agent", "id": 1, "given": 5, "opts": 6}], "notes": [], "done": null}';
        await agent('x')""",
        "TypeError",
    ),
    (
        """JSON.stringify = () => '{"calls": [{"kind": "timer", "id": 1, "seconds": NaN}], "notes": [], "done": null}';
        await agent('x')""",
        "ValueError",
    ),
    ("JSON.parse = () => ({ calls: 1 }); Array.prototype.splice = () => 1; await agent('x')", "TypeError"),
    ("Object.prototype.toJSON = () => 'x'; await agent('x')", "TypeError"),
    ("return {", "SyntaxError"),
    ("await new Promise(() => {})", "nothing will give"),
]
HOSTILE_PYTHON = [
    # Outside
    ("open('/etc/passwd').read()", "is not defined"),
    ("import os\nos.environ['HOME']", "is not defined"),
    ("import os\nos.getenv('HOME')", "is not defined"),
    ("import os\nos.listdir('/')", "is not defined"),
    ("import os\nos.system('id')", "has no attribute"),
    ("import socket", "is not defined"),
    ("import subprocess", "is not defined"),
    ("import ctypes", "is not defined"),
    ("import time\ntime.sleep(1)", "is not defined"),
    ("from pathlib import Path\nPath('/etc/passwd').read_text()", "is not defined"),
    ("from pathlib import Path\nPath('/').iterdir()", "is not defined"),
    ("__import__('os')", "is not defined"),
    ("eval(\"open('/etc/passwd').read()\")", "is not defined"),
    ("exec('while True: pass')", "time limit exceeded"),
    ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
    ("(lambda: 0).__globals__", "AttributeError"),
    ("agent.__self__", "AttributeError"),
    # Time
    ("while True: pass", "time limit exceeded"),
    ("sum(range(10**12))", "time limit exceeded"),
    ("while True: await sleep(0)", "without waiting"),
    ("while True: log('x')", "without waiting"),
    ("import re\nre.match('(a+)+$', 'a' * 64 + 'b')\nwhile True: pass", "time limit exceeded"),
    # Memory
    ("x = []\nwhile True: x.append('a' * 100000)", "memory limit exceeded"),
    ("'x' * 10**10", "memory limit exceeded"),
    ("[0] * 10**10", "memory limit exceeded"),
    ("10 ** 10 ** 10", "memory limit exceeded"),
    ("'x'.ljust(10**10)", "memory limit exceeded"),
    ("def f(): return f()\nf()", "recursion"),
    ("import asyncio\nawait asyncio.gather(*[agent(str(i)) for i in range(10**7)])", "without waiting"),
    # What it passes
    ("await agent('x' * 2_000_000)", "at most 1,000,000"),
    ("await agent('x', returns={'type': 'object', 'title': 'x' * 2_000_000})", "at most 1,000,000"),
    ("'x' * 5_000_000", "at most 4,000,000"),
    ("x = []\nfor _ in range(100_000): x = [x]\nx", ""),
    ("await agent()", "missing 1 required"),
    ("await agent(5)", "takes a text as its prompt"),
    ("await check('ls', 5)", "check() takes"),
    ("raise SystemExit", "SystemExit"),
]


@pytest.mark.parametrize(("body", "told"), HOSTILE_SCRIPTS)
def test_a_hostile_script_reaches_nothing_and_is_bounded(body: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What another limit ends gets the time to reach it on a busy machine.
    endless = told in ("interrupted", "without waiting")
    monkeypatch.setattr("swarm.workflows.interpreter.TURN_SECONDS", 0.3 if endless else 30)
    monkeypatch.setattr("swarm.workflows.javascript.MOST_TIMERS", 100)
    error = try_workflow(script(body), answer).error
    assert told in error and error, error


@pytest.mark.parametrize(("source", "told"), HOSTILE_PYTHON)
def test_hostile_python_reaches_nothing_and_is_bounded(source: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.workflows.monty.TURN_SECONDS", 0.5)
    monkeypatch.setattr("swarm.workflows.monty.LIMITS", {**LIMITS, "max_turn_duration_secs": 0.3})
    error = try_workflow(make_definition(source, ".py", "x", "x.py"), answer).error
    assert told in error and error, error


def interpreters() -> list[psutil.Process]:
    """The processes of QuickJS that this one has started."""
    return [one for one in psutil.Process().children() if any("interpreter.py" in word for word in one.cmdline())]


def test_a_script_has_a_process_of_its_own_with_nothing_in_it_and_loses_only_that() -> None:
    desk = Desk(seed="x")
    program = make_program(script("for (let i = 0; ; i++) { await agent(`ask ${i}`); }"), desk, "")
    program.start()
    [process] = interpreters()
    assert process.environ() == {} and process.cwd() == "/" and process.num_fds() == 3
    assert process.rlimit(psutil.RLIMIT_NOFILE) == (3, 3) and process.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
    program.settle(desk.calls[0]["id"], "done", failed=False)
    assert program.ended is None and len(desk.calls) == 2
    process.kill()
    program.settle(desk.calls[1]["id"], "done", failed=False)
    assert program.ended is not None and "has ended its interpreter" in program.ended.error
    program.close()
    assert not interpreters()


def test_an_interpreter_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.workflows.javascript.ANSWER_SECONDS", 0.3)
    program = make_program(script("await agent('ask')"), desk := Desk(seed="x"), "")
    program.start()
    [process] = interpreters()
    process.suspend()
    program.settle(desk.calls[0]["id"], "done", failed=False)
    assert program.ended is not None and "too late" in program.ended.error
    program.close()
    assert not interpreters()


def test_an_interpreter_that_was_broken_cannot_fill_the_memory_of_its_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "interpreter.py"
    broken.write_text("import sys\nfor _ in range(8): sys.stdout.write('x' * (1 << 20))\n")
    monkeypatch.setattr("swarm.workflows.javascript.interpreter.__file__", str(broken))
    program = make_program(script("await agent('ask')"), Desk(seed="x"), "")
    program.start()
    assert program.ended is not None and "answers without end" in program.ended.error
    program.close()
    assert not interpreters()
