"""Nothing that a model wrote gives orders to a terminal or hides on it, whichever command shows it.

Tests of swarm/cli/consoles.py.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm import Job
from swarm.cli import output
from swarm.cli.output import is_hidden
from tests.e2e.prepared import prepared_swarm
from tests.e2e.terminal import Terminal
from tests.fleet import Fleet
from tests.waiting import wait_for

EVIL = "\u202eevil\u200b\x1b]0;title\x07\x1b[2J\x9b31m\x7f\ufeff\u2066\U000e0041"
SCENARIO = """
name: evil
rules:
  - when: {prompt: '^child', turn: 0}
    reply: {tools: [{name: SendMessage, input: {to: user, message: EVIL}}]}
  - when: {prompt: '^child'}
    reply: {text: EVIL}
  - when: {turn: 0}
    reply: {text: EVIL, tools: [
      {name: Agent, input: {description: EVIL, prompt: child, name: helper}},
      {name: TeamCreate, input: {description: EVIL}}]}
  - when: {turn: 1}
    reply: {tools: [
      {name: ScratchpadWrite, input: {page: notes, content: EVIL}},
      {name: BoardAdd, input: {subject: EVIL, description: EVIL}},
      {name: Bash, input: {command: EVIL}}]}
  - when: {turn: 2}
    reply: {tools: [{name: AskUserQuestion, input: {question: EVIL, options: [EVIL, b]}}]}
  - reply: {text: EVIL}
""".replace("EVIL", json.dumps(EVIL))


class Stage:
    """A fleet with a job whose every word is hostile, and the command on a terminal."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.fleet.start_worker(2)
        server = self.fleet.rehearse(SCENARIO)
        self.job: Job = self.fleet.swarm.submit(
            f"go {EVIL}",
            agent="general-purpose",
            workspace=self.fleet.workspace,
            base_url=server.url,
            deny=["Bash"],
            ask_seconds=600,
        )
        asked = wait_for("it asks", lambda: next(iter(self.fleet.swarm.questions.open(self.job.id)), None), 60)
        self.question = asked.id

    def command(self, *arguments: str) -> list[str]:
        return [prepared_swarm(), *arguments]

    def environment(self) -> dict[str, str]:
        return self.fleet.environment()

    def show(self, *arguments: str) -> bytes:
        """All that reaches the terminal, as it comes."""
        terminal = Terminal(self, *arguments)
        code, text = terminal.finish()
        assert code == 0, text
        return terminal.raw

    def pipe(self, *arguments: str) -> bytes:
        ran = subprocess.run(self.command(*arguments), env=self.environment(), capture_output=True, timeout=90)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    try:
        yield stage
    finally:
        stage.fleet.close()


def _orders(shown: bytes) -> list[str]:
    """The characters that are hidden or obeyed, but for what the command itself styles with."""
    text = shown.decode()
    assert "\x1b]" not in text and "\x1b[2J" not in text
    return [each for each in text if is_hidden(each) and each not in "\x1b\r\n"]


def _document(shown: bytes) -> object:
    """The document on stdout; what is said on stderr comes after it."""
    return json.JSONDecoder().raw_decode(shown.decode())[0]


def test_every_command_shows_what_would_be_obeyed_or_hidden(stage: Stage) -> None:
    job, root = stage.job.id, stage.job.view().root_id
    commands = [("jobs",), ("tree", job), ("events", job), ("transcript", root, "--full"), ("board", job), ("pad", job)]
    commands += [("pad", job, "notes"), ("inbox", job, "--all"), ("questions",), ("questions", stage.question)]
    commands += [("inbox", root, "--all")]
    seen = 0
    for command in commands:
        shown = stage.show(*command)
        assert _orders(shown) == [], command
        seen += b"\\u202eevil" in shown
    assert seen >= 8, "the words did get there"


def test_json_on_a_terminal_is_escaped_and_still_the_same_json(stage: Stage) -> None:
    job, root = stage.job.id, stage.job.view().root_id
    commands = [("jobs",), ("tree", job), ("board", job), ("pad", job, "notes"), ("inbox", job, "--all")]
    commands += [("questions",), ("questions", stage.question)]
    for command in commands:
        shown = stage.show(*command, "--json")
        assert _orders(shown) == [] and b"\x1b" not in shown, command
        assert json.dumps(EVIL)[1:-1] in json.dumps(_document(shown)) or command == ("jobs",)
    for command in (("events", job), ("transcript", root)):
        shown = stage.show(*command, "--json")
        assert _orders(shown) == [] and b"\x1b" not in shown, command
        assert all(json.loads(line) for line in shown.decode().splitlines())
    assert json.loads(stage.pipe("pad", job, "notes", "--json"))["text"] == EVIL


def test_the_answer_is_plain_on_a_terminal_and_byte_for_byte_in_a_pipe(stage: Stage) -> None:
    path = stage.fleet.folder / "answer.yaml"
    path.write_text("name: answer\nrules:\n  - reply: {text: " + json.dumps(EVIL) + "}\n")
    arguments = ("run", "go", "-a", "general-purpose", "-w", str(stage.fleet.workspace), "--rehearse", str(path))
    assert stage.pipe(*arguments) == EVIL.encode() + b"\n"
    shown = stage.show(*arguments)
    assert b"\\u001b]0;title\\u0007" in shown and EVIL.encode() not in shown
    assert "\u202e".encode() not in shown and b"\xc2\x9b" not in shown and b"\x7f" not in shown


def test_an_error_that_quotes_what_was_given_is_plain(stage: Stage) -> None:
    terminal = Terminal(stage, "tree", f"job-{EVIL}")
    code, _ = terminal.finish()
    assert code == 2 and _orders(terminal.raw) == []


MAKE = r"""
evil = b"\x1b]0;title\x07\x1b[2J\xc2\x9b31m\xe2\x80\xaeevil\xff"
open(b"name-\xe2\x80\xae\xc2\x9b\xff", "wb").write(b"one\n")
open("content", "wb").write(evil + b"\r hidden\n")
"""


def test_a_difference_is_plain_on_a_terminal_and_byte_for_byte_in_a_pipe(stage: Stage) -> None:
    folder = stage.fleet.folder / "changed"
    folder.mkdir()
    (folder / "make.py").write_text(MAKE)
    path = stage.fleet.folder / "make.yaml"
    path.write_text("""
name: make
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: python3 make.py}}]}
  - reply: {text: made}
""")
    server = stage.fleet.rehearse(str(path))
    job = stage.fleet.swarm.submit(
        "go", workspace=folder, base_url=server.url, isolation="worktree", mode="bypassPermissions"
    )
    assert job.wait(60).state == "completed"
    assert len(job.work().changes) == 2
    for more in ((), ("--stat",)):
        shown = stage.show("diff", job.id, *more)
        assert _orders(shown) == [] and b"\x1b" not in shown, more
        assert b"\\u202e" in shown and b"\\xff" in shown
    assert b"\\u001b]0;title" in stage.show("diff", job.id)
    patch = stage.pipe("diff", job.id)
    applied = folder.with_name("applied")
    applied.mkdir()
    subprocess.run(["git", "apply", "-"], cwd=applied, input=patch, check=True)
    assert {os.fsencode(each.name): each.read_bytes() for each in applied.iterdir()} == {
        b"content": b"\x1b]0;title\x07\x1b[2J\xc2\x9b31m\xe2\x80\xaeevil\xff\r hidden\n",
        b"name-\xe2\x80\xae\xc2\x9b\xff": b"one\n",
    }


@pytest.mark.long
def test_the_results_of_a_map_are_plain_on_a_terminal_and_the_same_json(stage: Stage) -> None:
    path, lines = stage.fleet.folder / "map.yaml", stage.fleet.folder / "lines"
    path.write_text("name: map\nrules:\n  - reply: {text: " + json.dumps(EVIL) + "}\n")
    lines.write_text("a line\n")
    arguments = (
        "map",
        "{line}",
        "--from",
        str(lines),
        "-w",
        str(stage.fleet.workspace),
        "--rehearse",
        str(path),
        "--quiet",
    )
    shown = stage.show(*arguments)
    assert _orders(shown) == [] and b"\x1b" not in shown
    assert _document(shown)["result"] == EVIL  # type: ignore[index]
    assert EVIL.encode()[:3] in stage.pipe(*arguments)


def test_one_module_writes_to_the_terminal() -> None:
    folder = Path(output.__file__).parent
    for path in sorted({*folder.rglob("*.py")} - {Path(output.__file__)}):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                direct = called == "print" or called.startswith(
                    ("sys.stdout.write", "sys.stdout.buffer", "sys.stderr.w")
                )
                assert not direct, f"{path}:{node.lineno} writes past swarm.cli.output"
