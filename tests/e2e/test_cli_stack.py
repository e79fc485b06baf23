"""`swarm up`, a job put on its queue, every way to look at it, and `swarm down`.

Tests of swarm/cli/machines.py, swarm/cli/lookup.py, swarm/cli/rehearse.py.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.cli_world import World
from tests.rehearsal import RehearsalServer, load_scenario
from tests.waiting import wait_for


@pytest.fixture
def tree_server() -> Iterator[RehearsalServer]:
    with RehearsalServer(load_scenario("tree")) as server:
        yield server


@pytest.mark.long
def test_a_detached_job_can_be_followed_and_read_before_and_after_down(
    world: World, tree_server: RehearsalServer
) -> None:
    model = {"SWARM_BASE_URL": tree_server.url}
    assert world.run("up", "--concurrency", "2", **model).returncode == 0
    status = world.read_json("status", "--json")
    assert status["redis"]["running"]
    assert [worker["ready"] for worker in status["workers"]] == [True]

    detached = world.run("run", "--detach", "-w", str(world.workspace), "TREE depth=1 fanout=2 steps=1", **model)
    assert detached.returncode == 0, detached.stderr.decode()
    job_id = detached.stdout.decode().strip()

    followed = world.run("events", job_id, "--follow", "--json")
    types = [json.loads(line)["type"] for line in followed.stdout.splitlines()]
    assert types[0] == "job_started"
    assert types.count("agent_spawned") == 2
    assert types[-1] == "job_ended"
    _check_views(world, job_id)

    assert world.run("down").returncode == 0
    assert world.processes() == []
    _check_views(world, job_id)
    assert world.processes() == []
    assert b"nothing was running" in world.run("down").stdout


@pytest.mark.long
def test_a_rehearsal_that_is_left_alone_is_served_until_its_job_has_ended(world: World) -> None:
    assert world.run("up", "--concurrency", "2").returncode == 0
    ran = world.run("run", "--rehearse", "hello", "--detach", "-w", str(world.workspace), "hi")
    assert ran.returncode == 0, ran.stderr.decode()
    job_id = ran.stdout.decode().strip()
    assert world.run("events", job_id, "--follow").returncode == 0
    assert world.read_json("tree", job_id, "--json")["state"] == "completed"
    wait_for("its server has left", lambda: not world.processes("rehearse"))


def _check_views(world: World, job_id: str) -> None:
    (job,) = world.read_json("jobs", "--json")
    assert (job["job_id"], job["state"], job["agents"]) == (job_id, "completed", 3)
    assert job_id.encode() in world.run("jobs").stdout

    prefix = job_id.removeprefix("job-")[:6]
    tree = world.read_json("tree", prefix, "--json")
    assert (tree["result"], len(tree["agents"])) == ("DONE 3", 3)
    drawn = world.run("tree").stdout.decode()
    assert job_id in drawn
    assert all(agent["id"] in drawn for agent in tree["agents"])

    root, child = tree["agents"][0], tree["agents"][1]
    entries = [json.loads(line) for line in world.run("transcript", prefix, "--json").stdout.splitlines()]
    assert [entries[0]["kind"], entries[-1]["kind"]] == ["started", "finished"]
    assert entries[0]["spec"]["agent_id"] == root["id"]
    told = world.run("transcript", child["id"][:12]).stdout.decode()
    assert child["id"] in told
    assert "completed" in told

    assert f"{job_id} completed" in world.run("events", job_id).stdout.decode()
    cancelled = world.run("cancel", job_id)
    assert (cancelled.returncode, cancelled.stdout.decode()) == (0, f"{job_id} had already ended: completed\n")


def test_a_job_survives_down_and_goes_on_after_up(world: World, tree_server: RehearsalServer) -> None:
    model = {"SWARM_BASE_URL": tree_server.url}
    world.run("up", "--concurrency", "2", **model)
    prompt = "TREE depth=1 fanout=2 steps=8 think=300"
    job_id = world.run("run", "--detach", "-w", str(world.workspace), prompt, **model).stdout.decode().strip()
    wait_for("three turns", lambda: world.read_json("tree", job_id, "--json")["turns"] >= 3)
    assert world.run("down").returncode == 0
    assert world.processes() == []
    assert world.run("up", "--concurrency", "2", **model).returncode == 0
    world.run("events", job_id, "--follow")
    tree = world.read_json("tree", job_id, "--json")
    assert (tree["state"], tree["result"]) == ("completed", "DONE 3")


def test_one_agent_of_a_job_can_be_cancelled(world: World, tree_server: RehearsalServer) -> None:
    model = {"SWARM_BASE_URL": tree_server.url}
    world.run("up", "--concurrency", "3", **model)
    prompt = "TREE depth=1 fanout=2 steps=25 think=2000"  # long enough for every command below
    job_id = world.run("run", "--detach", "-w", str(world.workspace), prompt, **model).stdout.decode().strip()
    wait_for("three agents", lambda: len(world.read_json("tree", job_id, "--json")["agents"]) == 3)
    child = world.read_json("tree", job_id, "--json")["agents"][1]["id"]
    assert world.run("cancel", child, "--reason", "not needed").stdout.decode() == f"{child} cancelled\n"
    agents = {agent["id"]: agent for agent in world.read_json("tree", job_id, "--json")["agents"]}
    assert (agents[child]["state"], agents[child]["reason"]) == ("cancelled", "not needed")
    assert world.run("cancel", job_id).stdout.decode() == f"{job_id} cancelled\n"


def test_an_id_that_nothing_has_is_wrong_usage(world: World) -> None:
    for command in ("tree", "transcript", "events", "cancel"):
        ran = world.run(command, "job-0000")
        assert ran.returncode == 2
        assert ran.stderr.decode().startswith("swarm: no job 'job-0000'")
    assert world.run("tree").returncode == 2
    assert b"no job yet" in world.run("jobs").stderr
    assert world.processes() == []


def test_status_of_nothing_is_no_error(world: World) -> None:
    ran = world.run("status")
    assert ran.returncode == 0
    assert b"stopped" in ran.stdout


def test_the_doctor_finds_what_is_needed_and_names_what_is_missing(world: World) -> None:
    checks = {check["name"]: check for check in world.read_json("doctor", "--json")}
    assert checks["Python"]["ok"]
    assert checks["Redis"]["ok"]
    assert not checks["key for the model"]["ok"]
    assert "ANTHROPIC_API_KEY" in checks["key for the model"]["remedy"]
    ran = world.run("doctor", SWARM_REDIS_URL="redis://127.0.0.1:9/0")
    assert ran.returncode == 1
    assert b"MISSING" in ran.stdout


def test_the_agents_of_a_workspace_are_listed_with_what_they_may_use(world: World) -> None:
    folder = world.workspace / ".swarm" / "agents"
    folder.mkdir(parents=True)
    (folder / "poet.md").write_text(
        "---\nname: poet\ndescription: Writes verse.\ntools: Read, Bash\n---\nWrite verse.\n"
    )
    (folder / "broken.md").write_text("---\nname: [\n---\n")
    ran = world.run("agents", "--json", "--workspace", str(world.workspace))
    assert ran.returncode == 0
    agents = {agent["name"]: agent for agent in json.loads(ran.stdout)["agents"]}
    assert agents["poet"]["allowed_tools"] == ["Read", "Bash"]
    assert "Write" not in agents["explore"]["allowed_tools"]
    assert b"broken.md" in ran.stderr
    assert world.run("agents", "check", str(folder / "poet.md")).returncode == 0
    assert world.run("agents", "check", str(folder)).returncode == 1
    assert world.run("agents", "check", str(folder / "none.md")).returncode == 2


@pytest.mark.long
def test_a_worker_in_the_foreground_serves_jobs_until_it_is_told_to_end(
    world: World, tree_server: RehearsalServer
) -> None:
    assert world.run("up", "--workers", "0").returncode == 0
    redis = world.read_json("status", "--json")["redis"]["url"]
    fleet = {"SWARM_REDIS_URL": redis, "SWARM_BASE_URL": tree_server.url}
    ready = world.home / "ready"
    worker = world.start("worker", "-c", "2", SWARM_READY_FILE=str(ready), **fleet)
    try:
        assert worker.stdout is not None and worker.stderr is not None
        wait_for("the worker is ready", ready.exists)
        ran = world.run("run", "-q", "-w", str(world.workspace), "TREE depth=1 fanout=2 steps=1", **fleet)
        assert (ran.returncode, ran.stdout) == (0, b"DONE 3\n"), ran.stderr.decode()
        assert os.getpgid(worker.pid) == worker.pid  # it became the worker; there is no front left in between
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=90)
    assert worker.returncode == 0


@pytest.mark.long
def test_rehearse_serves_a_scenario_until_it_is_interrupted(world: World) -> None:
    process = world.start("rehearse", "hello")
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line.startswith("rehearsing hello at http://127.0.0.1:")
    url = line.split()[-1]
    ran = world.run("run", "-q", "-w", str(world.workspace), "hi", SWARM_BASE_URL=url)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.startswith(b"Hello!")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"answered 1 requests" in errors
