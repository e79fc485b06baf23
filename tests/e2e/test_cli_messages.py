"""Writing to agents and reading their messages from the command line.

Tests of swarm/cli/messages.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm import Job
from tests.e2e.prepared import prepared_swarm
from tests.fleet import Fleet
from tests.waiting import wait_for

_ROOT = Path(__file__).resolve().parents[2]
_TALK = """
name: talk
rules:
  - when: {prompt: '^helper', turn: 0}
    reply: {tools: [{name: SendMessage, input: {to: user, message: "I am \\e[31mhere\\nand ready"}}]}
  - when: {prompt: '^helper', last_text: 'from="user"[\\s\\S]*your name'}
    reply: {tools: [{name: SendMessage, input: {to: user, message: 'I am the helper'}}]}
  - when: {prompt: '^helper', last_text: 'from="user"'}
    reply: {text: 'this is my answer'}
  - when: {prompt: '^helper'}
    reply: {text: helped}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: help, prompt: helper, name: helper}}]}
  - when: {last_text: 'from="user"[\\s\\S]*wake the helper'}
    reply: {tools: [{name: SendMessage, input: {to: helper, message: 'hello?'}}]}
  - when: {last_text: 'from="user"'}
    reply: {text: 'root has read it'}
  - reply: {text: finished}
"""


class Town:
    """A fleet with one job that is over, and the command."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.fleet.start_worker(3)
        self.server = self.fleet.rehearse(_TALK)

    def new_job(self) -> Job:
        job = self.fleet.submit("go", self.server)
        view = job.wait(60)
        assert view.state == "completed", view.reason
        return job

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [prepared_swarm(), *arguments],
            capture_output=True,
            cwd=_ROOT,
            env=self.fleet.environment(),
            timeout=90,
            input=b"" if stdin is None else stdin,
        )

    def output(self, *arguments: str, stdin: bytes | None = None) -> str:
        ran = self.run(*arguments, stdin=stdin)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode()


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    town = Town()
    try:
        yield town
    finally:
        town.fleet.close()


def test_the_inbox_shows_what_is_unread_once_and_marks_it(town: Town) -> None:
    job = town.new_job()
    listed = town.run("jobs")
    assert f"1 unread message for you: swarm inbox {job.id}" in listed.stderr.decode()
    shown = town.output("inbox", job.id)
    helper = job.agents()[1].id
    assert shown.startswith("● ") and f"helper ({helper})" in shown
    assert "  and ready" in shown and "\x1b" not in shown
    again = town.run("inbox", job.id)
    assert again.stdout == b"" and f"no unread message in {job.id}" in again.stderr.decode()
    assert town.output("inbox", "--all", job.id).startswith("○ ")
    [message] = json.loads(town.output("inbox", "--all", "--json"))
    assert message["body"] == "I am \x1b[31mhere\nand ready"
    assert (message["from"], message["from_name"], message["unread"]) == (helper, "helper", False)
    assert job.view().unread == 0


def test_a_message_to_a_job_goes_to_its_root_which_answers_with_its_result(town: Town) -> None:
    job = town.new_job()
    ran = town.run("send", job.id, "do you read me?", "--wait-reply", "--timeout", "60")
    assert (ran.returncode, ran.stdout.decode()) == (0, "root has read it\n"), ran.stderr.decode()
    assert "delivered to root" in ran.stderr.decode()
    # Every end of the job is told, and so is that it went on.
    told = [json.loads(line) for line in town.output("events", job.id, "--json").splitlines()]
    assert [event["type"] for event in told].count("job_ended") == 2
    assert "resumed" in [event.get("why") for event in told]
    told = town.output("transcript", job.id)
    assert f"✉ message from user ({job.id})" in told and "do you read me?" in told and "<message" not in told


def test_an_agent_is_written_to_by_name_by_id_and_by_the_beginning_of_its_id(town: Town) -> None:
    hold = town.fleet.rehearse(
        """
name: hold
rules:
  - when: {prompt: '^hang'}
    reply: {text: never, latency_seconds: 100}
  - when: {prompt: '^side', last_text: 'from="user"[\\s\\S]*name'}
    reply: {tools: [{name: SendMessage, input: {to: user, message: 'I am the helper'}}]}
  - when: {prompt: '^side', last_text: 'from="user"[\\s\\S]*result'}
    reply: {text: this is my answer}
  - when: {prompt: '^side', turn: 0}
    reply: {text: ready}
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew}}]}
  - when: {turn: 1}
    reply: {tools: [
      {name: Agent, input: {description: hang, prompt: hang, run_in_background: true}},
      {name: Agent, input: {description: side, prompt: side, name: helper, teammate: true}}]}
  - reply: {text: waiting}
"""
    )
    job = town.fleet.submit("go", hold)
    helper = wait_for(
        "the helper idles", lambda: next((a for a in job.agents() if a.name == "helper" and a.idle), None)
    )
    tree = town.output("tree", job.id)
    assert "helper general-purpose: side" in tree and "idle" in tree
    reply = town.output("send", job.id, "--to", "helper", "what is your name?", "--wait-reply", "--timeout", "60")
    assert reply == "I am the helper\n"
    sent = json.loads(town.output("send", "helper", "-", "--job", job.id, "--json", stdin="naïve name\n".encode()))
    assert sent["names"] == ["helper"] and list(sent["receivers"]) == [helper.id]
    wait_for("the second answer", lambda: len(job.inbox()) == 2)
    silent = town.run("send", helper.id[:14], "only a result", "--wait-reply", "--timeout", "60")
    assert silent.returncode == 0 and "helper has nothing left to do and did not write to you" in silent.stderr.decode()
    box = json.loads(town.output("inbox", helper.id, "--json"))
    assert [(message["from_name"], message["unread"]) for message in box] == [("user", False)] * 3
    assert box[1]["body"] == "naïve name\n" and box[1]["id"] == sent["message_id"]
    late = town.run("send", job.view().root_id, "are you there?", "--wait-reply", "--timeout", "1")
    assert late.returncode in (0, 1)
    job.cancel()


def test_what_cannot_be_sent_is_said_in_one_line(town: Town) -> None:
    job = town.new_job()
    for arguments, stdin, code, said in (
        (("send", job.id, "x", "--to", "nobody"), None, 2, "there is no agent 'nobody' in this job; there are: root"),
        (("send", job.id, "x", "--to", "user"), None, 2, "yourself"),
        (("send", "agent-nope", "x"), None, 2, "no job or agent 'agent-nope'"),
        (("send", job.id, "x", "--to", "helper"), None, 1, "the job has ended"),
        (("send", job.id, "-"), b"x" * 65_537, 1, "65,537 bytes"),
        (("send", job.id, "-"), b"\xff", 2, "not UTF-8"),
        (("send", job.id, "x", "--timeout", "3"), None, 2, "--wait-reply"),
        (("send", job.id, "x", "--to", "a", "--job", "b"), None, 2, "--job"),
        (("inbox", "job-nope"), None, 2, "no job"),
    ):
        ran = town.run(*arguments, stdin=stdin)
        assert (ran.returncode, said in ran.stderr.decode()) == (code, True), (arguments, ran.stderr.decode())
        assert ran.stdout == b""
        assert "Traceback" not in ran.stderr.decode()


def test_run_shows_messages_as_they_arrive_and_hints_at_the_inbox(town: Town) -> None:
    path = town.fleet.folder / "talk.yaml"
    path.write_text(_TALK)
    ran = town.run("run", "go", "-a", "general-purpose", "-w", str(town.fleet.workspace), "--rehearse", str(path))
    assert (ran.returncode, ran.stdout) == (0, b"finished\n"), ran.stderr.decode()
    lines = ran.stderr.decode().splitlines()
    shown = next(
        number for number, line in enumerate(lines) if "message to user: I am \\u001b[31mhere and ready" in line
    )
    ended = next(
        number for number, line in enumerate(lines) if "general-purpose: help" in line and "  completed (" in line
    )
    assert shown < ended
    assert "1 unread message for you: swarm inbox job-" in lines[-1]
