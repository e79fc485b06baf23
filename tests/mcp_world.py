"""Real MCP servers for tests: those of npm from a folder of the tests' own, those of PyPI from the environment."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.needs import lack, need_program

FOLDER = Path(os.environ.get("SWARM_TEST_MCP_SERVERS") or Path(__file__).parents[1] / "build" / "mcp-servers")
"""Made by `npm install --prefix build/mcp-servers` with the packages of `NPM`, as `.ci/run` does."""
NPM = ("everything", "filesystem", "memory")


def find_server(name: str) -> str:
    """The program of a server; the test is skipped where it is not installed."""
    if name in NPM:
        need_program("node")
        program = FOLDER / "node_modules" / ".bin" / f"mcp-server-{name}"
        if not program.exists():
            lack(
                f"server-{name}",
                f"npm install --prefix build/mcp-servers @modelcontextprotocol/server-{name} was not run",
            )
        return str(program)
    return shutil.which(f"mcp-server-{name}", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or lack(
        f"mcp-server-{name}", f"pip install mcp-server-{name} was not run"
    )


def configure(patch: pytest.MonkeyPatch, home: Path, servers: dict[str, Any]) -> None:
    """Have whoever submits jobs be a person with these servers."""
    place = home / ".config" / "swarm" / "mcp.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"mcpServers": servers}))
    patch.setenv("HOME", str(home))


def running(*words: str) -> list[psutil.Process]:
    """Processes whose command line has all of these words."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if process.pid != os.getpid() and all(word in line for word in words):
            found.append(process)
    return found
