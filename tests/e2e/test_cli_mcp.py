"""A person has an MCP server in a file of another tool, and an installation that cannot run any.

Tests of swarm/definitions/mcp/lacks.py.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli_world import PATIENCE_SECONDS, ROOT, World

_WITHOUT_SDK = "import sys\nsys.modules.update(dict.fromkeys(('mcp', 'mcp_types')))\n"
INSTALL = "pip install 'celery-swarm[mcp]'"


@pytest.fixture
def bare(world: World, tmp_path: Path) -> dict[str, str]:
    """The environment of Python without the extra, in a home with a server and a hook."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(_WITHOUT_SDK)
    entry = {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"]}
    (world.home / ".claude.json").write_text(json.dumps({"mcpServers": {"time": entry}}))
    hook = {"type": "command", "command": "touch hooked"}
    (world.home / ".claude").mkdir()
    (world.home / ".claude/settings.json").write_text(json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}}))
    return {"PYTHONPATH": str(tmp_path / "site")}


def run(world: World, bare: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    given = {"cwd": ROOT, "env": world.environment(**bare), "timeout": PATIENCE_SECONDS, "stdin": subprocess.DEVNULL}
    return subprocess.run(world.command(*arguments), capture_output=True, check=False, **given)  # type: ignore[call-overload,no-any-return]


@pytest.mark.long
def test_a_server_that_nobody_can_run_is_told_in_one_line_and_stops_neither_job_nor_demo(
    world: World, bare: dict[str, str], tmp_path: Path
) -> None:
    ran = run(world, bare, "run", "--rehearse", "hello", "-w", str(world.workspace), "Go")
    told = [line for line in ran.stderr.decode().splitlines() if "time" in line and "MCP" in line]
    assert ran.returncode == 0 and len(told) == 1 and INSTALL in told[0], ran.stderr.decode()
    assert (world.workspace / "hooked").exists()

    folder = tmp_path / "till"
    demo = run(world, bare, "demo", "--folder", str(folder))
    assert demo.returncode == 0, demo.stderr.decode()
    assert "MCP" not in demo.stderr.decode() and not (folder / "hooked").exists()


@pytest.mark.long
def test_a_type_that_needs_a_server_is_refused_with_the_command_that_installs_it(
    world: World, bare: dict[str, str]
) -> None:
    place = world.home / ".claude/agents/clockwork.md"
    place.parent.mkdir()
    place.write_text("---\nname: clockwork\ndescription: Tells the time.\nmcpServers: [time]\n---\nTell it.")
    ran = run(world, bare, "run", "--rehearse", "hello", "-w", str(world.workspace), "-a", "clockwork", "Go")
    assert ran.returncode == 2, ran.stderr.decode()
    assert (
        f"the type clockwork needs the MCP server time, and nothing here speaks with MCP servers; run: {INSTALL}"
        in (ran.stderr.decode())
    )
    for command in ("mcp list", "doctor"):
        told = run(world, bare, *command.split())
        assert INSTALL in (told.stdout + told.stderr).decode(), command
    [listed] = json.loads(run(world, bare, "mcp", "list", "--json", "-w", str(world.workspace)).stdout)["servers"]
    assert listed["state"] == "cannot run" and INSTALL in listed["lack"]
