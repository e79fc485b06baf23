"""Agents that are programs: real processes in a real sandbox, told and answered in JSON lines.

Tests of swarm/agent/programs.py, swarm/tools/program.py.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from swarm import Job
from swarm.agent.entries import Exchanged, ToolFinished
from tests.fleet import Fleet
from tests.needs import need_sandbox
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

HEAD = "import json, os, sys\ndef say(**line): print(json.dumps(line), flush=True)\nstart = json.loads(sys.stdin.readline())\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_sandbox()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


def define(fleet: Fleet, name: str, code: str, *keys: str) -> None:
    """An agent of this name whose body is this program."""
    folder = fleet.workspace / ".swarm" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    head = [f"name: {name}", f"description: Is {name}.", f"command: [python3, {name}.py]", *keys]
    (folder / f"{name}.md").write_text("\n".join(["---", *head, "---", ""]))
    (fleet.workspace / f"{name}.py").write_text(HEAD + code)


def start(fleet: Fleet, kind: str, prompt: str = "go", **limits: object) -> Job:
    return fleet.submit(prompt, silent(fleet), agent=kind, **limits)


def silent(fleet: Fleet) -> RehearsalServer:
    return fleet.rehearse("name: x\nrules:\n  - {reply: {text: NO MODEL IS ASKED}}\n")


def test_a_program_is_told_its_prompt_and_returns_its_result_and_holds_no_secret(at_work: Fleet) -> None:
    code = """
say(type="say", text="working")
open("made.txt", "w").write(start["prompt"])
try: open(os.path.expanduser("~/../../../../proc/1/environ")).read()
except OSError: pass
secrets = [name for name in os.environ if "KEY" in name or name.startswith(("SWARM_REDIS", "ANTHROPIC"))]
say(type="result", data={"prompt": start["prompt"], "type": start["agent"]["type"], "secrets": secrets})
"""
    define(at_work, "clerk", code)
    job = start(at_work, "clerk", "fill it", max_tokens=1)
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", '{"prompt": "fill it", "type": "clerk", "secrets": []}')
    assert (at_work.workspace / "made.txt").read_text() == "fill it"
    assert view.usage.total_tokens == 0 and view.cost_usd == 0


def test_a_script_that_knows_of_nothing_returns_what_it_prints_and_fails_as_programs_do(at_work: Fleet) -> None:
    define(at_work, "plain", "print('forty-two')")
    define(at_work, "broken", "print('so far'); sys.exit(3)")
    define(at_work, "wrong", "say(type='error', text='no such form')")
    define(at_work, "slow", "import time; time.sleep(60)", "timeout_mins: 0.02")
    assert start(at_work, "plain").wait(60).text == "forty-two"
    broken, wrong, slow = (start(at_work, kind) for kind in ("broken", "wrong", "slow"))
    view = broken.wait(60)
    assert view.state == "failed"
    assert "ended with the exit code 3; its last words:\nso far" in view.reason
    assert "no such form" in wrong.wait(60).reason
    assert slow.wait(60).state != "completed"


def test_parent_and_program_write_to_each_other_while_it_runs(at_work: Fleet) -> None:
    code = """
say(type="send", to="parent", text="ready", id=7)
heard, said = sorted((json.loads(sys.stdin.readline()) for _ in "12"), key=lambda line: line["type"])
say(type="send", to="nobody", text="x")
refused = json.loads(sys.stdin.readline())
say(type="result", text=f"{said} {heard['from']} {heard['text']} {refused['type']}")
"""
    define(at_work, "peer", code)
    server = at_work.rehearse(
        """
name: parent
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: d, prompt: p, subagent_type: peer, name: pete, run_in_background: true}}]}
  - {when: {turn: 1}, reply: {tools: [{name: SendMessage, input: {to: pete, message: hello}}]}}
  - {reply: {text: DONE}}
"""
    )
    job = at_work.submit("go", server)
    assert job.wait(60).state == "completed"
    child = job.agents()[1]
    assert child.text == "{'type': 'sent', 'to': 'parent', 'id': 7} root hello refused"
    exchanged = [entry for entry in at_work.swarm.journal(child.id) if isinstance(entry, Exchanged)]
    assert [bool(entry.to) for entry in exchanged] == [True, False]


def test_a_cancelled_program_is_gone_with_all_it_started(at_work: Fleet) -> None:
    code = "import subprocess, time\nsubprocess.Popen(['sleep', '613'])\nopen('alive', 'w').write('x')\ntime.sleep(600)"
    define(at_work, "long", code)
    job = start(at_work, "long")
    wait_for("it runs", lambda: (at_work.workspace / "alive").exists())
    job.cancel()
    assert job.wait(30).state == "cancelled"
    wait_for("nothing of it is left", lambda: not _running("613"))


def test_a_program_is_a_command_to_rules_and_needs_its_sandbox(at_work: Fleet) -> None:
    define(at_work, "clerk", "say(type='result', text='ran')")
    job = at_work.swarm.submit(
        "go", agent="clerk", workspace=at_work.workspace, base_url=silent(at_work).url, deny=("Bash(python3 *)",)
    )
    view = job.wait(60)
    assert view.state == "failed" and "Not allowed" in view.reason


def test_a_message_to_one_that_has_ended_is_another_run(at_work: Fleet) -> None:
    define(at_work, "echo", "say(type='result', text=f\"{start['prompt'][-60:]} {len(start['earlier'])}\")")
    job = start(at_work, "echo", "first")
    assert job.wait(60).text == "first 0"
    job.send("root", "second")
    wait_for("it went on", lambda: job.view().text.endswith(" 1"), seconds=60)
    assert "second" in job.view().text


@pytest.mark.long
def test_a_program_whose_worker_died_is_told_of_and_run_again_only_if_it_says_so(fleet: Fleet) -> None:
    code = """
runs = len(open("runs").read()) if os.path.exists("runs") else 0
open("runs", "a").write("x")
if runs == 0:
    import time; time.sleep(600)
say(type="result", text=f"run {runs + 1} {start['key']}")
"""
    define(fleet, "once", code)
    define(fleet, "again", code.replace('runs"', 'reruns"'), "restart: true")
    worker = fleet.start_worker(2)
    once, again = start(fleet, "once"), start(fleet, "again")
    wait_for("both run", lambda: all((fleet.workspace / name).exists() for name in ("runs", "reruns")))
    time.sleep(0.5)
    worker.kill()
    fleet.start_worker(2)
    view = once.wait(60)
    assert view.state == "failed" and "interrupted" in view.reason
    assert (fleet.workspace / "runs").read_text() == "x"
    assert again.wait(60).text.startswith("run 2 ")
    assert [
        entry.is_error for entry in fleet.swarm.journal(again.view().root_id) if isinstance(entry, ToolFinished)
    ] == [False]


def _running(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes().decode("utf-8", "replace").split("\0"):
                return True
        except OSError:
            continue
    return False
