"""What the command costs and says before it does anything.

Tests of swarm/cli/app.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.cli.app import SECTIONS, app

_ROOT = Path(__file__).resolve().parents[2]
_HEAVY = ("anthropic", "celery", "flower", "kombu", "redis", "pydantic", "rich.console", "psutil")
_PROBE = """
import json, sys
from swarm.cli import main
sys.argv = ["swarm", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit:
    pass
heavy = json.loads(sys.stdin.read())
print(json.dumps([name for name in heavy if name in sys.modules]), file=sys.stderr)
"""


def _imported(arguments: list[str], **variables: str) -> tuple[set[str], str]:
    """Which of the heavy packages the command loaded, and what it printed."""
    ran = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(arguments)],
        input=json.dumps(_HEAVY),
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **variables},
        timeout=60,
    )
    return set(json.loads(ran.stderr.strip().splitlines()[-1])), ran.stdout


def test_help_lists_the_commands_and_imports_nothing_heavy() -> None:
    heavy, text = _imported(["--help"])
    assert heavy == set()
    for name in ("run", "jobs", "tree", "transcript", "events", "cancel", "agents", "worker", "flower", "up", "down"):
        assert f"  {name} " in text
    for name in ("board", "pad", "status", "doctor", "demo", "rehearse"):
        assert f"  {name} " in text


def test_shell_completion_imports_nothing_heavy() -> None:
    heavy, text = _imported(
        [], _SWARM_COMPLETE="complete_bash", COMP_WORDS="swarm tr", COMP_CWORD="1", _TYPER_COMPLETE_ARGS="swarm tr"
    )
    assert heavy <= {"pydantic"}  # newer versions of Typer read the words with it themselves
    assert text.split() == ["tree", "transcript", "trust"]


def test_the_help_says_of_each_command_what_its_own_help_begins_with() -> None:
    import typer

    listed = typer.main.get_command(app).commands
    said = {name: command.get_short_help_str() for name, command in listed.items()}
    assert said == {name: command.load().get_short_help_str(1_000) for name, command in listed.items()}
    assert list(said) == [name for section in SECTIONS.values() for name in section] and all(said.values())


def _swarm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "swarm", *arguments],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.parametrize(
    "command",
    [
        *("run", "jobs", "tree", "transcript", "events", "board", "pad", "cancel", "agents", "worker", "flower"),
        *("up", "down", "status", "doctor", "demo", "rehearse"),
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    ran = _swarm(command, "--help")
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"Usage: swarm {command}")


def test_the_version_is_told() -> None:
    ran = _swarm("--version")
    assert ran.returncode == 0
    assert ran.stdout.startswith("swarm ")


def test_an_unknown_command_is_wrong_usage() -> None:
    ran = _swarm("jbos")
    assert ran.returncode == 2
    assert "jbos" in ran.stderr


def test_a_duration_that_is_none_is_wrong_usage() -> None:
    ran = _swarm("run", "hello", "--timeout", "soon")
    assert ran.returncode == 2
    assert "soon" in ran.stderr
