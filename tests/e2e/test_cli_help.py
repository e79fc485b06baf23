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
from swarm.core.capabilities import TABLE
from tests.e2e.prepared import prepared_swarm

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


def test_help_imports_nothing_beyond_typer_but_the_list_of_commands() -> None:
    beyond = _new_modules("import typer", "from swarm.cli import main; import contextlib, io; import swarm.cli.app")
    offers = {f"swarm.capabilities.{name}" for name in TABLE} | {
        "swarm.capabilities",
        "swarm.core",
        "swarm.core.capabilities",
    }
    assert {name for name in beyond if name != "__future__"} == {"swarm", "swarm.cli", "swarm.cli.app"} | offers
    ran = subprocess.run([sys.executable, "-X", "importtime", "-m", "swarm", "--help"], capture_output=True, cwd=_ROOT)
    assert b"swarm.cli.failures" not in ran.stderr, "errors are reported by what an error loads"


def test_a_run_imports_no_model_no_engine_no_http_client_and_no_rehearsal() -> None:
    loaded = _new_modules("pass", "import swarm.cli.run")
    assert not {name.partition(".")[0] for name in loaded} & {
        "anthropic",
        "celery",
        "kombu",
        "billiard",
        "flower",
        "httpx2",
        "textual",
        "mcp",
    }
    assert not [
        name for name in loaded if name.startswith(("swarm.rehearsal", "swarm.tasks", "swarm.web", "swarm.api"))
    ]


def test_a_worker_imports_neither_the_command_nor_what_watches_jobs() -> None:
    loaded = _new_modules("pass", "import swarm.tasks.template; swarm.tasks.template._import_all()")
    assert {"celery", "anthropic", "swarm.tasks.worker"} <= loaded
    assert not {name.partition(".")[0] for name in loaded} & {"typer", "flower", "prompt_toolkit", "textual"}
    assert not [name for name in loaded if name.startswith(("swarm.cli", "swarm.web", "swarm.api", "swarm.rehearsal"))]


def _new_modules(before: str, code: str) -> set[str]:
    """The modules that `code` loads in a new process that has run `before`."""
    look = (
        f"import json, sys; {before}; known = set(sys.modules); {code}; print(json.dumps([*{{*sys.modules}} - known]))"
    )
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, cwd=_ROOT, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout))


def test_shell_completion_imports_nothing_heavy() -> None:
    heavy, text = _imported(
        [], _SWARM_COMPLETE="complete_bash", COMP_WORDS="swarm tr", COMP_CWORD="1", _TYPER_COMPLETE_ARGS="swarm tr"
    )
    assert heavy <= {"pydantic"}  # newer versions of Typer read the words with it themselves
    assert text.split() == ["try", "tree", "transcript", "trust", "triggers"]


def test_the_help_says_of_each_command_what_its_own_help_begins_with() -> None:
    import typer

    listed = typer.main.get_command(app).commands
    said = {name: command.get_short_help_str() for name, command in listed.items()}
    assert said == {name: command.load().get_short_help_str(1_000) for name, command in listed.items()}
    assert list(said) == [name for section in SECTIONS.values() for name in section] and all(said.values())


def _swarm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [prepared_swarm(), *arguments],
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
    ran = subprocess.run([sys.executable, "-m", "swarm", "--version"], capture_output=True, text=True, cwd=_ROOT)
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
