"""Coming back to a job: watching, typing, answering, leaving; and a conversation.

Tests of swarm/cli/attach.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.cli_world import ROOT, World
from tests.e2e.terminal import Terminal
from tests.fleet import Fleet
from tests.waiting import wait_for

ECHO = """
name: echo
rules:
  - when: {prompt: '^wait', turn: 0}
    reply: {tools: [{name: AskUserQuestion, input: {question: 'Which colour?', options: [red, blue]}}]}
  - when: {last_text: 'and now(?P<word>.*)'}
    reply: {text: 'you said it'}
  - reply: {text: 'the answer'}
"""


class Post:
    """A terminal on a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "swarm", *arguments]

    def environment(self) -> dict[str, str]:
        return self.fleet.environment()


@pytest.fixture
def post(at_work: Fleet) -> Iterator[Post]:
    yield Post(at_work)


def test_who_comes_back_sees_the_tree_types_answers_and_reads_the_end(post: Post) -> None:
    job = post.fleet.submit("wait for me", post.fleet.rehearse(ECHO), agent="build")
    terminal = Terminal(post, "attach", job.id)
    terminal.wait_for("Which colour?")
    terminal.type("2\n")
    code, text = terminal.finish()
    assert (code, job.view().text) == (0, "the answer")
    assert "the answer" in text and job.id in text
    [answered] = post.fleet.swarm.questions.of_job(job.id)
    assert (answered.answer, answered.by) == ("blue", "user")


def test_what_is_typed_reaches_the_first_agent_and_leaving_ends_nothing(post: Post) -> None:
    job = post.fleet.submit("TREE depth=1 fanout=1 steps=40 think=500", post.fleet.rehearse("tree"))
    terminal = Terminal(post, "attach", job.id)
    terminal.wait_for("Ctrl-D leaves")
    terminal.type("come to a close\r")
    terminal.wait_for("you to root: come to a close")
    root = job.view().root_id
    assert [message.body for message in post.fleet.swarm.mailbox(root).messages] == ["come to a close"]
    terminal.type("\x04")
    code, text = terminal.finish()
    assert code == 0 and f"swarm attach {job.id}" in text
    assert not job.view().ended


def test_an_interrupt_leaves_too_and_the_terminal_shows_keys_again(post: Post) -> None:
    job = post.fleet.submit("TREE depth=1 fanout=1 steps=40 think=500", post.fleet.rehearse("tree"))
    terminal = Terminal(post, "attach", "@last")
    terminal.wait_for("Ctrl-D leaves")
    terminal.type("\x03")
    code, text = terminal.finish()
    assert code == 130 and "it continues" in text
    assert not job.view().ended


def test_without_a_terminal_the_job_is_waited_for_and_its_answer_printed(post: Post) -> None:
    job = post.fleet.submit("TREE depth=1 fanout=1 steps=1", post.fleet.rehearse("tree"))
    command = post.command("attach", job.id)
    ran = subprocess.run(command, env=post.environment(), cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL)
    assert (ran.returncode, ran.stdout) == (0, b"DONE 2\n"), ran.stderr.decode()
    assert b"spawned by agent-" in ran.stderr


def test_a_run_without_a_prompt_is_a_conversation_on_one_job(stack: World) -> None:
    scenario = stack.workspace / "echo.yaml"
    scenario.write_text(ECHO)
    terminal = Terminal(stack, "run", "--rehearse", str(scenario), "-w", str(stack.workspace))
    terminal.wait_for("Type a task")
    terminal.type("hello there\n")
    terminal.wait_for("the answer")
    terminal.wait_for("your turn")
    terminal.type("and now again\n")
    terminal.wait_for("you said it")
    terminal.wait_for("your turn")
    terminal.type("\x04")
    code, _ = terminal.finish()
    assert code == 0
    (job,) = wait_for("the job", lambda: stack.read_json("jobs", "--grep", "hello there", "--json"))
    assert (job["state"], job["turns"]) == ("completed", 2)
