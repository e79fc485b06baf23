"""`swarm demo` and the dashboard, as a person who has just installed the package sees them.

Tests of swarm/cli/demo.py.
"""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from swarm.web.guard import cookie_for
from tests.e2e.cli_world import World
from tests.flower import TOKEN
from tests.waiting import wait_for


def test_the_demo_turns_failing_tests_into_passing_ones_and_leaves_no_process(world: World) -> None:
    folder = world.home / "sample"
    ran = world.run("demo", "--folder", str(folder))
    text = ran.stdout.decode()
    assert ran.returncode == 0, text + ran.stderr.decode()
    assert "rehearsed" in text
    assert text.index("FAILED") < text.index("What changed") < text.index("failed before and pass now")
    assert "diff --git" in text
    assert world.processes() == []


@pytest.mark.long
def test_flower_shows_agents_under_their_readable_names(world: World) -> None:
    assert world.run("up", "--workers", "1", "--concurrency", "2").returncode == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flower = world.start("flower", "--port", str(port), SWARM_FLOWER_TOKEN=TOKEN)
    try:
        page = f"http://127.0.0.1:{port}/tasks/datatable?draw=1&start=0&length=10&search%5Bvalue%5D="
        page += "&order%5B0%5D%5Bcolumn%5D=0&order%5B0%5D%5Bdir%5D=asc&columns%5B0%5D%5Bdata%5D=name"
        wait_for("Flower answers", lambda: _read(page) is not None)
        prompt = "TREE depth=1 fanout=2 steps=1"
        ran = world.run("run", "--json", "-q", "--rehearse", "tree", "-w", str(world.workspace), prompt)
        assert ran.returncode == 0, ran.stderr.decode()
        names = [
            # A root has no name but its prompt, which stays out of Flower.
            f"build: {json.loads(ran.stdout)['job_id']}",
            "general-purpose: tree branch 0",
            "general-purpose: tree branch 1",
        ]
        wait_for("three readable rows", lambda: sorted(row["name"] for row in _read(page) or []) == names)
        wait_for("three ended rows", lambda: {row["state"] for row in _read(page) or []} == {"SUCCESS"})
    finally:
        flower.send_signal(signal.SIGTERM)
        flower.communicate(timeout=60)


def _read(page: str) -> list[dict[str, Any]] | None:
    try:
        asked = urllib.request.Request(page, headers={"Cookie": "=".join(cookie_for(TOKEN))})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            rows: list[dict[str, Any]] = json.load(answer)["data"]
            return rows
    except (OSError, urllib.error.URLError):
        return None
