"""A real MCP server asks a person, and a hook answers.

Tests of swarm/capabilities/hooks/answers.py, swarm/capabilities/hooks/step.py, swarm/capabilities/mcp/caller.py,
swarm/capabilities/mcp/elicitation.py, swarm/runtime/loop.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from swarm.agent.entries import Hooked, ToolFinished
from tests.fleet import Fleet
from tests.waiting import wait_for

DESK = {"command": sys.executable, "args": [str(Path(__file__).parents[1] / "mcp_server.py")]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home/.claude").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def said(**answer: object) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": "Elicitation", **answer}})


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (f"echo '{said(action='accept', content={'copies': 3})}'", "3 copies of plan"),
        (f"echo '{said(action='decline')}'", "decline"),
        ("echo 'not today' >&2; exit 2", "decline"),
        ("grep -q '\"requested_schema\"' && exit 0", "decline"),
        ("grep -q '\"mcp_server_name\"' && exit 0", "2 copies of plan"),
    ],
)
def test_a_hook_answers_a_server_in_the_persons_place(script: str, told: str, at_work: Fleet) -> None:
    (Path.home() / ".claude.json").write_text(json.dumps({"mcpServers": {"desk": DESK}}))
    hook = {"matcher": "desk", "hooks": [{"type": "command", "command": script}]}
    (Path.home() / ".claude/settings.json").write_text(json.dumps({"hooks": {"Elicitation": [hook]}}))
    server = at_work.rehearse(
        """
name: desk
rules:
  - when: {turn: 0}
    reply: {tools: [{name: mcp__desk__print_copies, input: {name: plan}}]}
  - {reply: {text: DONE}}
"""
    )
    asks = told.startswith("2")
    place = {"workspace": at_work.workspace, "base_url": server.url, "mode": "bypassPermissions"}
    job = at_work.swarm.submit("go", ask_seconds=600 if asks else 0, **place)
    if asks:
        wait_for("the person is asked", lambda: at_work.swarm.store.questions.open(job.id))
        at_work.swarm.answer(at_work.swarm.store.questions.open(job.id)[0].id, "2")
    assert job.wait(90).text == "DONE"
    entries = at_work.swarm.journal(job.view().root_id)
    [result] = [entry for entry in entries if isinstance(entry, ToolFinished)]
    [heard] = [entry for entry in entries if isinstance(entry, Hooked)]
    assert told in result.text, heard
    assert heard.name == "Elicitation" and heard.runs[0].outcome in ("ok", "refused")
