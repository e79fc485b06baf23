"""`swarm mcp check`: servers are started as for an agent, asked, and ended; what cannot be used says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.mcp_world import find_server, running
from tests.waiting import wait_for


def test_servers_are_checked_as_agents_would_have_them_and_nothing_is_left(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    (home / ".config/swarm").mkdir(parents=True)
    workspace.mkdir()
    clock = {"command": find_server("time"), "args": ["--local-timezone", "Pacific/Chatham"]}
    own: dict[str, Any] = {
        "clock": {**clock, "disabledTools": ["convert_*"]},
        "absent": {"command": "no-such-program"},
        "keyed": {**clock, "env": {"KEY": "${A_KEY}"}},
    }
    (home / ".config/swarm/mcp.json").write_text(json.dumps({"mcpServers": own}))
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": clock}}))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
    ran = subprocess.run(
        [sys.executable, "-m", "swarm", "mcp", "check"],
        cwd=workspace,
        env={**kept, "HOME": str(home), "SWARM_STATE_DIR": str(tmp_path / "state"), "A_KEY": "s3cret"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.splitlines() == [
        "absent: cannot be used: the program 'no-such-program' is not on the PATH of the worker's host",
        "clock: 1 tool: mcp__clock__get_current_time",
        "keyed: cannot be used: the MCP server 'keyed' cannot be started: A_KEY not among those that SWARM_MCP_ENV lets servers have",
        "theirs: cannot be used: not approved; `swarm trust` approves it",
    ]
    wait_for("nothing of it is left", lambda: not running("mcp-server-time", "Pacific/Chatham"))
