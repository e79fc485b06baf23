"""`swarm run` from a shell: real processes, a real Redis, a rehearsed model over real HTTP.

Tests of swarm/cli/interrupts.py, swarm/cli/run.py.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.cli_world import World, wait_for_line
from tests.rehearsal import RehearsalServer, parse_scenario

HELLO = b"Hello! This answer is rehearsed; it came from a local script and no model was asked.\n"
SLOW = "TREE depth=1 fanout=2 steps=25 think=700"


def test_a_rehearsed_job_prints_its_answer_and_leaves_no_process(world: World) -> None:
    ran = world.run("run", "--rehearse", "hello", "-w", str(world.workspace), "hi")
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout == HELLO
    assert re.search(rb"build: hi \(agent-\w+\)  completed", ran.stderr)
    assert world.processes() == []


def test_quiet_says_nothing_but_the_answer(stack: World) -> None:
    ran = stack.run("run", "-q", "--rehearse", "hello", "-w", str(stack.workspace), "hi")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, HELLO, b"")


def test_json_is_one_object_with_the_job_and_its_agents(stack: World) -> None:
    ran = stack.run(
        *("run", "--rehearse", "tree", "--json", "--max-depth", "1", "-w", str(stack.workspace)),
        "TREE depth=1 fanout=2 steps=1",
    )
    assert ran.returncode == 0, ran.stderr.decode()
    told = json.loads(ran.stdout)
    assert told["job_id"].startswith("job-")
    assert (told["state"], told["result"], told["reason"]) == ("completed", "DONE 3", "")
    assert told["limits"]["max_depth"] == 1
    assert [agent["depth"] for agent in told["agents"]] == [0, 1, 1]
    assert {agent["state"] for agent in told["agents"]} == {"completed"}
    assert told["turns"] == sum(agent["turns"] for agent in told["agents"]) > 0
    assert told["usage"]["output_tokens"] == sum(agent["usage"]["output_tokens"] for agent in told["agents"])
    assert (told["rehearsed"], told["cost_usd"], told["reckoned_usd"] > 0) == (True, 0, True)
    assert all(agent["model"].startswith("claude-") and agent["agent_id"] == agent["id"] for agent in told["agents"])


@pytest.mark.parametrize("argument", [[], ["-"]], ids=["omitted", "dash"])
def test_a_prompt_may_come_from_a_pipe(stack: World, argument: list[str]) -> None:
    prompt = "Grüße aus der Röhre. ".encode() * 50_000  # over a mebibyte
    ran = stack.run(
        *("run", "-q", "--json", "--rehearse", "hello", "-w", str(stack.workspace)), *argument, stdin=prompt
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert json.loads(ran.stdout)["title"].startswith("Grüße aus der Röhre.")


def test_a_job_that_fails_says_why_and_ends_with_1(stack: World, tmp_path: Path) -> None:
    scenario = tmp_path / "refused.yaml"
    scenario.write_text(
        "name: refused\nfaults:\n  - kind: 401\n    message: no such key\nrules:\n  - reply: {text: never}\n"
    )
    ran = stack.run("run", "--rehearse", str(scenario), "-w", str(stack.workspace), "hi")
    assert ran.returncode == 1
    assert ran.stdout == b""
    assert b"failed" in ran.stderr.splitlines()[-1]


def test_what_a_scenario_has_no_reply_for_is_told(stack: World, tmp_path: Path) -> None:
    scenario = tmp_path / "narrow.yaml"
    scenario.write_text("name: narrow\nrules:\n  - when: {prompt: something else}\n    reply: {text: never}\n")
    ran = stack.run("run", "--rehearse", str(scenario), "-w", str(stack.workspace), "hi")
    assert ran.returncode == 1
    assert b"the scenario narrow has no reply for turn 0 of build" in ran.stderr


# -- refused before anything is started -------------------------------------------------------------------


def _refused(world: World, *arguments: str, stdin: bytes | None = None, **variables: str) -> str:
    """The one line that is said; nothing may have been started for it."""
    ran = world.run("run", *arguments, stdin=stdin, **variables)
    assert ran.returncode == 2, ran.stderr.decode()
    assert ran.stdout == b""
    lines = ran.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert not world.state.exists()
    return lines[0]


def test_a_workspace_that_does_not_exist_is_refused(world: World) -> None:
    line = _refused(world, "--rehearse", "hello", "-w", str(world.workspace / "nowhere"), "hi")
    assert "nowhere is not a folder" in line
    assert "--workspace" in line


def test_an_unknown_type_of_agent_is_refused_with_the_known_ones(world: World) -> None:
    line = _refused(world, "--rehearse", "hello", "-w", str(world.workspace), "-a", "wizard", "hi")
    assert "'wizard'" in line
    assert "explore" in line


def test_without_a_key_the_way_to_one_is_told(world: World) -> None:
    line = _refused(world, "-w", str(world.workspace), "hi")
    assert "ANTHROPIC_API_KEY" in line
    assert "swarm demo" in line


@pytest.mark.parametrize("prompt", [b"", b" \n"])
def test_an_empty_prompt_is_refused(world: World, prompt: bytes) -> None:
    assert "empty" in _refused(world, "--rehearse", "hello", "-w", str(world.workspace), stdin=prompt)


def test_a_prompt_that_is_no_text_is_refused(world: World) -> None:
    assert "UTF-8" in _refused(world, "--rehearse", "hello", "-w", str(world.workspace), stdin=b"\xff\xfe\x00")


def test_a_prompt_of_five_mebibytes_is_refused(world: World) -> None:
    assert "4096 KiB" in _refused(world, "--rehearse", "hello", "-w", str(world.workspace), stdin=b"x" * (5 << 20))


def test_an_unknown_scenario_is_refused_with_the_shipped_ones(world: World) -> None:
    line = _refused(world, "--rehearse", "opera", "-w", str(world.workspace), "hi")
    assert "'opera'" in line
    assert "hello" in line


def test_detaching_needs_somebody_who_runs_the_job(world: World) -> None:
    assert "swarm up" in _refused(world, "--detach", "-w", str(world.workspace), "hi", ANTHROPIC_API_KEY="none")


@pytest.mark.parametrize("variables", [{}, {"ANTHROPIC_API_KEY": "none"}], ids=["no key", "key"])
def test_a_redis_that_is_down_is_one_line(world: World, variables: dict[str, str]) -> None:
    url = "redis://127.0.0.1:9/0"
    ran = world.run("run", "-w", str(world.workspace), "hi", SWARM_REDIS_URL=url, **variables)
    assert ran.returncode == 1
    lines = ran.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert url in lines[0]
    assert "SWARM_REDIS_URL" in lines[0]


def test_a_setting_that_cannot_be_used_is_named(world: World) -> None:
    ran = world.run("status", SWARM_LEASE_SECONDS="long")
    assert ran.returncode == 2
    assert b"SWARM_LEASE_SECONDS" in ran.stderr


# -- interrupted -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_interrupt_without_a_terminal_cancels_the_job(world: World) -> None:
    process = world.start("run", "--rehearse", "tree", "--json", "-w", str(world.workspace), SLOW)
    wait_for_line(process, "spawned")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 130, errors.decode()
    told = json.loads(output)
    assert told["state"] == "cancelled"
    assert {agent["state"] for agent in told["agents"]} == {"cancelled"}
    assert world.processes() == []


def test_a_termination_leaves_the_job_on_the_queue_and_no_process(world: World) -> None:
    process = world.start("run", "--rehearse", "tree", "-w", str(world.workspace), SLOW)
    wait_for_line(process, "spawned")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=90)
    assert (process.returncode, output) == (143, b""), errors.decode()
    assert b"detached from job-" in errors
    assert world.processes() == []
    (job,) = world.read_json("jobs", "--json")
    assert job["ended_at"] is None
    assert world.processes() == []


def test_a_key_that_is_refused_ends_the_command_with_the_reason_and_keeps_the_job(world: World, tmp_path: Path) -> None:
    scenario = parse_scenario("name: locked\nfaults: [{kind: 401, message: no such key}]\nrules: [{reply: {text: x}}]")
    with RehearsalServer(scenario) as server:
        ran = world.run("run", "-w", str(world.workspace), "hi", ANTHROPIC_API_KEY="wrong", SWARM_BASE_URL=server.url)
    assert ran.returncode == 1, ran.stderr.decode()
    assert b"no such key" in ran.stderr and b"It stays queued" in ran.stderr
    up = world.run("up", "--workers", "0")
    assert up.returncode == 0, up.stderr.decode()
    [job] = world.read_json("jobs", "--json")
    assert (job["state"], job["turns"]) == ("running", 0)
