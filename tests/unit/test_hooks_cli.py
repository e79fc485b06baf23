"""`swarm hooks`: what would be run, what would not and why, and what a hook would be told.

Tests of swarm/capabilities/hooks/payloads.py, swarm/cli/hooks.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from swarm.cli.hooks import show_hooks
from swarm.client.project import gather
from swarm.core.errors import ConfigurationError
from swarm.core.settings import load_settings
from swarm.permissions.trust import TrustStore

TABLE = {
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check"}]}], "Setup": []}
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("home", "project"):
        (tmp_path / folder / ".claude").mkdir(parents=True)
        (tmp_path / folder / ".claude" / "settings.json").write_text(json.dumps(TABLE))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWARM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def swarm_hooks(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(show_hooks)
    return CliRunner().invoke(app, arguments)


def test_what_would_be_run_is_listed_with_where_and_the_rest_with_why(project: Path) -> None:
    ran = swarm_hooks()
    assert ran.exit_code == 0, ran.output
    [_, own, ours] = ran.stdout.splitlines()
    assert "runs in the sandbox: nothing pins check" in own and "~/.claude/settings.json" in own
    assert "not run: the workspace is not trusted" in ours
    assert "2 hooks, 1 would run" in ran.stderr and ran.stderr.count("`Setup`") == 2
    assert json.loads(swarm_hooks("PreToolUse", "--tool", "Write", "--json").stdout) == []
    assert [one["runs"] for one in json.loads(swarm_hooks("PreToolUse", "--tool", "Bash", "--json").stdout)] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("./check", "runs on this host, pinned check"),
        ("sh ~/a.sh", "runs on this host"),
        ("npm test", "runs in the sandbox: its command line is not fully known"),
        ("cd . && ./check", "runs in the sandbox: its command line is not fully known"),
    ],
)
def test_each_hook_is_listed_with_where_it_runs_and_what_is_pinned(project: Path, command: str, where: str) -> None:
    (project / "check").write_text("#!/bin/sh\n")
    (project / ".claude" / "settings.json").unlink()
    table = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    (project.parent / "home" / ".claude" / "settings.json").write_text(json.dumps(table))
    settings = load_settings()
    TrustStore(settings.state_folder()).trust(project, gather(project, settings).grants)
    [_, listed] = swarm_hooks().stdout.splitlines()
    assert listed.split("  ")[-2].strip() == where


def test_a_sample_is_what_a_hook_would_be_told(project: Path) -> None:
    told = json.loads(swarm_hooks("PreToolUse", "--tool", "shell", "--given", '{"command": "ls"}', "--told").stdout)
    assert (told["tool_name"], told["tool_input"], told["cwd"]) == ("Bash", {"command": "ls"}, str(project))
    assert json.loads(swarm_hooks("SubagentStop", "--told").stdout)["agent_type"] == "build"
    wrong = swarm_hooks("PreTool", "--told").exception
    assert isinstance(wrong, ConfigurationError) and "did you mean 'PreToolUse'?" in str(wrong)
