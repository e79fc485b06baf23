"""What `swarm run` started stays up for the next one, for those who would have started the same, and not for ever.

Tests of swarm/cli/launch.py, swarm/local/job_stack.py.
"""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.e2e.cli_world import World, wait_for_line
from tests.waiting import wait_for

HELLO = b"Hello! This answer is rehearsed; it came from a local script and no model was asked.\n"
KEPT = b"the local stack stays up"


def _run(world: World, **variables: str) -> bytes:
    """Run a job; returns what was said on the side."""
    given = {"SWARM_KEEP_SECONDS": "120", **variables}
    ran = world.run("run", "--rehearse", "hello", "-w", str(world.workspace), "hi", **given)
    assert (ran.returncode, ran.stdout) == (0, HELLO), ran.stderr.decode()
    return ran.stderr


def _workers(world: World) -> list[int]:
    """The workers that are kept, by process id."""
    status = world.run("status", "--json")
    assert status.returncode == 0, status.stderr.decode()
    workers = world.read_json("status", "--json")["workers"]
    assert all(worker["kept"] for worker in workers)
    return [worker["pid"] for worker in workers]


def test_the_next_run_uses_what_the_last_one_started_and_down_ends_it(world: World) -> None:
    assert KEPT in _run(world)
    kept = _workers(world)
    assert len(kept) == 1
    assert KEPT not in _run(world), "it is said once"
    assert _workers(world) == kept
    # It is there for the jobs of such commands, and for nobody else's.
    refused = world.run("run", "--detach", "-w", str(world.workspace), "hi", ANTHROPIC_API_KEY="k")
    assert refused.returncode == 2 and b"no worker would run the job" in refused.stderr
    assert world.run("down").returncode == 0
    assert world.processes() == []


@pytest.mark.long
def test_whoever_has_another_key_or_other_settings_gets_a_worker_of_their_own(world: World) -> None:
    _run(world, ANTHROPIC_API_KEY="one")
    [first] = _workers(world)
    _run(world, ANTHROPIC_API_KEY="two")
    [second] = _workers(world)
    assert second != first and not psutil.pid_exists(first), "the other one is ended, not left with its key"
    _run(world, ANTHROPIC_API_KEY="two", SWARM_NETWORK="off")
    [third] = _workers(world)
    assert third != second
    assert psutil.Process(third).environ()["ANTHROPIC_API_KEY"] == "two"
    world.run("down")


@pytest.mark.long
def test_what_nobody_uses_ends_by_itself(world: World) -> None:
    _run(world, SWARM_KEEP_SECONDS="1")
    wait_for("nothing is left", lambda: world.processes() == [], 60)
    assert world.read_json("status", "--json")["workers"] == []


@pytest.mark.long
def test_a_run_that_is_interrupted_keeps_nothing(world: World) -> None:
    process = world.start(
        *("run", "--rehearse", "tree", "-w", str(world.workspace), "TREE depth=1 fanout=2 steps=25 think=700"),
        SWARM_KEEP_SECONDS="120",
    )
    wait_for_line(process, "spawned")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 130, errors.decode()
    assert KEPT not in errors
    assert world.processes() == []


@pytest.mark.long
def test_up_beside_a_kept_worker_starts_one_for_everybody(world: World) -> None:
    _run(world)
    [kept] = _workers(world)
    assert world.run("up", "--concurrency", "1").returncode == 0
    found = {worker["pid"]: worker["kept"] for worker in world.read_json("status", "--json")["workers"]}
    assert found.pop(kept) and list(found.values()) == [False]
    assert world.run("down").returncode == 0
    assert world.processes() == []
