"""Waiting for jobs from a script, and who did what about a job.

Tests of swarm/cli/wait.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from swarm.cli.app import app
from tests.fleet import Fleet
from tests.waiting import wait_for

_SCENARIO = """
name: waiting
rules:
  - when: {prompt: '^hang'}
    reply: {text: never, latency_seconds: 100}
  - when: {prompt: '^fail'}
    reply: {text: never that, stop_reason: refusal}
  - when: {prompt: '^ask', turn: 0}
    reply: {tools: [{name: AskUserQuestion, input: {question: 'which?'}}]}
  - reply: {text: done}
"""


def _swarm(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def commands(at_work: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("SWARM_REDIS_URL", at_work.url)
    monkeypatch.setenv("SWARM_STATE_DIR", str(at_work.settings.state_folder()))
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    return at_work


def test_a_script_waits_for_jobs_and_knows_by_the_exit_code_how_they_ended(
    commands: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = commands.rehearse(_SCENARIO)
    good, bad, slow = (commands.submit(prompt, server) for prompt in ("do it", "fail | <b>", "hang"))
    assert _swarm("wait", good.id).exit_code == 0
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    both = _swarm("wait", good.id, bad.id)
    assert both.exit_code == 1 and f"{good.id} completed" in both.stdout and f"{bad.id} failed" in both.stdout
    assert f"::error title={bad.id}::" in both.stderr and f"title={good.id}" not in both.stderr
    assert "fail \\| &lt;b>" in summary.read_text() and len(summary.read_text().splitlines()) == 4
    late = _swarm("wait", slow.id, "--timeout", "1s", "--json")
    assert late.exit_code == 124 and json.loads(late.stdout)[0]["state"] == "running"


def test_what_people_did_about_a_job_is_listed(commands: Fleet) -> None:
    server = commands.rehearse(_SCENARIO)
    job = commands.swarm.submit(
        "ask first", agent="build", workspace=commands.workspace, base_url=server.url, ask_seconds=60
    )
    [question] = wait_for("it asks", lambda: commands.swarm.questions.open(job.id))
    commands.swarm.answer(question.id, "this one", by="ada")
    job.wait(60)
    job.send("root", "thanks")
    job.wait(60)
    acts = json.loads(_swarm("audit", job.id, "--json").stdout)
    assert [(act["by"], act["what"]) for act in acts] == [("user", "started"), ("ada", "answered"), ("user", "wrote")]
    assert "question: which?" in acts[1]["about"] and "this one" in acts[1]["about"]
    other = commands.submit("hang", server)
    other.cancel("no longer wanted", by="ada")
    told = _swarm("audit", other.id).stdout.splitlines()
    assert len(told) == 2 and "ada cancelled  root: no longer wanted" in told[1]
