"""What is said of MCP servers: to people by `swarm mcp check`, which starts them as for an agent, and to a coordinator.

Tests of swarm/capabilities/mcp/messages.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swarm.agent.entries import Started
from swarm.agent.needs import Has
from tests.fleet import Fleet
from tests.mcp_world import configure, find_server, running
from tests.waiting import wait_for


def test_a_coordinator_is_told_which_servers_its_workers_have(
    at_work: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, tmp_path / "home", {"clock": {"command": "never-started"}})
    server = at_work.rehearse("hello")
    job = at_work.submit("Go", server, agent="coordinator")
    assert job.wait(60).state == "completed"
    begun = next(iter(at_work.swarm.journal(job.view().root_id)))
    assert isinstance(begun, Started)
    assert "MCP servers, which you lack: clock." in begun.system
    assert not [tool for tool in begun.tools if tool["name"].startswith("mcp__")]


def test_agents_go_where_their_servers_are_said_to_be_and_wait_for_one_by_name(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, tmp_path / "home", {"the.clock": {"command": "never-started"}})
    server, store = fleet.rehearse("hello"), fleet.swarm.store
    fleet.start_worker(1)
    plain = set(store.fleet.staffed())
    # Another worker names it, and is gone again.
    store.fleet.announce("another", Has(only_job="", offers={"mcp:the_clock": ""}), 3.0)
    job, reader = (fleet.submit("Go", server, agent=agent) for agent in ("general-purpose", "explore"))
    lack = "it lacks the MCP server the_clock (SWARM_MCP_SERVERS=the_clock)"
    assert wait_for("it waits for its server", job.find_unmet) == lack
    assert job.agents()[0].unserved == lack
    assert reader.wait(40).state == "completed", "a type without servers goes anywhere"
    fleet.start_worker(1, SWARM_MCP_SERVERS="the.clock")
    assert job.wait(60).state == "completed"
    *_, last = (event.fields["worker"] for event in job.follow() if event.kind == "running")
    assert last not in plain


def test_an_agent_is_told_which_servers_of_its_type_its_job_has_not(at_work: Fleet) -> None:
    write = at_work.workspace / ".claude/agents/painter.md"
    write.parent.mkdir(parents=True)
    write.write_text("---\nname: painter\ndescription: Paints.\ntools: Read, mcp__images__make\n---\nPaint.")
    job = at_work.submit("Go", at_work.rehearse("hello"), agent="painter")
    assert [warning for warning in job.warnings if "painter: it goes without" in warning and "images" in warning]
    assert job.wait(60).state == "completed"
    begun = next(iter(at_work.swarm.journal(job.view().root_id)))
    assert isinstance(begun, Started) and "MCP servers that this job does not have: images." in begun.system


@pytest.mark.long
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
        "keyed: cannot be used: the MCP server 'keyed' cannot be started: A_KEY not allowed for servers by SWARM_MCP_ENV",
        "theirs: cannot be used: not approved; `swarm trust` approves it",
    ]
    wait_for("nothing of it is left", lambda: not running("mcp-server-time", "Pacific/Chatham"))
