"""Real MCP servers, used by agents on a fleet through the host's broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from swarm.agent.entries import Started, ToolFinished
from swarm.client import Job
from swarm.runtime.servers import broker_folder
from tests.fleet import Fleet
from tests.mcp_world import configure, find_server, running
from tests.waiting import wait_for

ALL = tuple(f"mcp__{name}__*" for name in ("everything", "files", "memory", "git", "clock"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet of two workers, and a person with five servers."""
    home = tmp_path_factory.mktemp("home")
    with closing(Fleet()) as fleet, pytest.MonkeyPatch.context() as patch:
        os.system(f"git init -q {fleet.workspace}")
        servers = {
            "everything": {"command": find_server("everything")},
            "files": {"command": find_server("filesystem"), "args": ["."]},
            "memory": {"command": find_server("memory")},
            "git": {"command": find_server("git")},
            "clock": {"command": find_server("time"), "args": ["--local-timezone", "UTC"]},
        }
        for _ in range(2):
            fleet.start_worker(3)
        configure(patch, home, servers)
        yield fleet
        fleet.close()
        wait_for("nothing is left", lambda: not processes_of(fleet), seconds=30)


def processes_of(fleet: Fleet) -> list[psutil.Process]:
    """What runs of this fleet's broker."""
    return running(str(broker_folder(fleet.settings)))


def submit(fleet: Fleet, scenario: str, *, allow: tuple[str, ...] = ALL, **given: object) -> Job:
    server = fleet.rehearse(f"name: served\nrules:\n{scenario}")
    options = {
        "workspace": fleet.workspace,
        "base_url": server.url,
        "agent": "general-purpose",
        "ask_seconds": 0,
        **given,
    }
    return fleet.swarm.submit("Use them.", allow=list(allow), **options)


def results(fleet: Fleet, agent_id: str) -> list[ToolFinished]:
    return [entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, ToolFinished)]


def started(fleet: Fleet, agent_id: str) -> Started:
    return next(entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, Started))


def test_an_agent_uses_servers_of_both_eras(served: Fleet) -> None:
    job = submit(
        served,
        """
  - {when: {turn: 1+}, reply: {text: done}}
  - reply:
      tools:
        - {name: mcp__everything__echo, input: {message: hello}}
        - {name: mcp__files__write_file, input: {path: note.txt, content: kept}}
        - {name: mcp__git__git_status, input: {repo_path: .}}
        - {name: mcp__clock__get_current_time, input: {timezone: UTC}}
        - {name: mcp__everything__get-tiny-image, input: {}}
        - {name: mcp__everything__get-sum, input: {a: one}}
""",
    )
    view = job.wait(90)
    echo, written, status, clock, image, wrong = results(served, view.root_id)
    assert echo.text == "Echo: hello"
    assert "note.txt" in written.text and (served.workspace / "note.txt").read_text() == "kept"
    assert "Untracked files" in status.text and '"timezone": "UTC"' in clock.text
    assert "[an image that cannot be shown" in image.text, "that one is damaged, and no conversation must hold it"
    assert wrong.is_error and "expected number, received string" in wrong.text
    begun = started(served, view.root_id)
    tools = {tool["name"]: tool for tool in begun.tools}
    assert tools["mcp__memory__read_graph"]["defer_loading"], "so many are not given whole"
    assert "defer_loading" not in tools["ToolSearch"]
    assert {"ReadMcpResource", "GetMcpPrompt"} <= tools.keys()
    assert begun.kinds["mcp__memory__read_graph"] == "look" and "mcp__memory__create_entities" not in begun.kinds
