"""What happens while a job runs: as lines of JSON for programs, as lines for people, and one agent's life as it goes on.

Tests of swarm/cli/event_lines.py, swarm/streaming/events.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

from swarm.streaming.events import STREAM_EVENT
from tests.e2e.cli_world import ROOT, World
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer

TREE = "TREE depth=1 fanout=2 steps=1"


def test_a_run_can_be_read_as_it_happens(stack: World) -> None:
    ran = stack.run("run", "--json", "--stream", "--rehearse", "tree", "-w", str(stack.workspace), TREE)
    assert ran.returncode == 0, ran.stderr.decode()
    told = [STREAM_EVENT.validate_json(line) for line in ran.stdout.splitlines()]
    assert [told[0].type, told[-1].type] == ["job_started", "job_ended"]
    assert sum(event.type == "agent_ended" for event in told) == 3
    assert json.loads(ran.stdout.splitlines()[-1])["result"] == "DONE 3"
    again = stack.run("events", told[0].job_id, "--json").stdout
    assert again == ran.stdout


def test_a_stream_is_of_json(world: World) -> None:
    ran = world.run("run", "--stream", "hi")
    assert ran.returncode == 2 and b"--json" in ran.stderr


def test_events_name_agents_by_what_they_do(stack: World) -> None:
    assert stack.run("run", "-q", "--rehearse", "tree", "-w", str(stack.workspace), TREE).returncode == 0
    lines = stack.run("events", "@last").stdout.decode().splitlines()
    assert "(rehearsed)" in lines[0]
    assert any("tree branch 1" in line and "spawned by agent-" in line for line in lines)
    assert any("tree branch 0" in line and "completed (" in line for line in lines)


def _swarm(fleet: Fleet, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "swarm", *arguments]
    return subprocess.run(command, env=fleet.environment(), capture_output=True, cwd=ROOT, timeout=90)


def test_a_transcript_is_followed_to_the_end_of_its_agent(at_work: Fleet) -> None:
    server: RehearsalServer = at_work.rehearse("tree", latency_seconds=0.5)
    job = at_work.submit("TREE depth=0 fanout=0 steps=3", server)
    ran = _swarm(at_work, "transcript", job.id, "--follow", "--json")
    assert ran.returncode == 0, ran.stderr.decode()
    kinds = [json.loads(line)["kind"] for line in ran.stdout.splitlines()]
    assert [kinds[0], kinds[-1]] == ["started", "finished"] and kinds.count("assistant") == job.view().turns
    assert _swarm(at_work, "transcript", job.id, "--json").stdout == ran.stdout
