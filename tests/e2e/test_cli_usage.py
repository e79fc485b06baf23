"""What the command says to wrong usage, understands without being told, and completes.

Tests of swarm/cli/completion.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from swarm.client.swarm import Swarm
from swarm.core.settings import Settings
from tests.e2e.cli_world import ROOT, World
from tests.fleet import Fleet


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["jbos"], ["'jbos'", "jobs", "swarm run TASK"]),
        (["run", "--agnet", "x", "hi"], ["--agnet", "--agent", "swarm run --help"]),
        (["run", "--timeout", "soon", "hi"], ["soon", "swarm run --help"]),
        (["permissions", "Foo", "x"], ["no tool 'Foo'", "Bash"]),
        (["permissions", "Reed", "x"], ["no tool 'Reed'", "Read"]),
        (["jobs", "--state", "asleep"], ["'asleep'", "running"]),
        (["tree", "@0"], ["'@0'", "@last"]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_usage_is_one_line_that_names_the_remedy(world: World, arguments: list[str], words: list[str]) -> None:
    ran = world.run(*arguments)
    assert ran.returncode == 2
    (line,) = ran.stderr.decode().splitlines()
    assert line.startswith("swarm: ")
    assert [word for word in words if word not in line] == []


def test_a_sentence_is_a_task_and_what_is_piped_in_belongs_to_it(stack: World) -> None:
    ran = stack.run(
        *("Summarise what is piped in", "--rehearse", "hello", "--json", "-q", "--title", "A summary"),
        *("-w", str(stack.workspace)),
        stdin=b"one\ntwo\n",
    )
    assert ran.returncode == 0, ran.stderr.decode()
    told = json.loads(ran.stdout)
    assert told["title"] == "A summary"
    entries = stack.run("transcript", "--json", told["job_id"]).stdout.decode().splitlines()
    assert "Summarise what is piped in\n\n<stdin>\none\ntwo\n</stdin>" in json.loads(entries[1])["text"]


def test_the_newest_jobs_are_called_by_their_place_and_found_by_state_time_and_words(stack: World) -> None:
    for title in ("an older one", "a newer one"):
        ran = stack.run("run", "-q", "--rehearse", "hello", "--title", title, "-w", str(stack.workspace), "hi")
        assert ran.returncode == 0, ran.stderr.decode()
    newest, before = stack.read_json("jobs", "-n", "2", "--json")
    assert (newest["title"], before["title"], newest["rehearsed"]) == ("a newer one", "an older one", True)
    assert stack.read_json("tree", "@last", "--json")["job_id"] == newest["job_id"]
    assert stack.read_json("tree", "@2", "--json")["job_id"] == before["job_id"]
    found = stack.read_json("jobs", "--state", "completed", "--since", "1h", "--grep", "OLDER", "--json")
    assert [job["job_id"] for job in found] == [before["job_id"]]
    assert stack.read_json("jobs", "--state", "failed", "--grep", "older", "--json") == []
    assert b"rehearsed" in stack.run("jobs", "-n", "1").stdout


def test_a_job_that_a_limit_stopped_has_an_exit_code_of_its_own(stack: World) -> None:
    limited = ("run", "--rehearse", "tree", "--max-turns", "2", "-w", str(stack.workspace))
    ran = stack.run(*limited, "TREE depth=0 fanout=0 steps=9")
    assert ran.returncode == 4, ran.stderr.decode()
    assert ran.stdout.strip()
    told = stack.read_json("tree", "@last", "--json")
    assert (told["state"], told["stopped_at"]) == ("completed", "turns")


def test_a_plan_that_nobody_can_approve_is_printed_as_the_answer(stack: World) -> None:
    ran = stack.run("run", "--rehearse", "ask", "--mode", "plan", "-w", str(stack.workspace), "Greet me")
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.startswith(b"# A greeting")
    assert b"no one could approve the plan" in ran.stderr


def test_why_a_job_failed_is_said_once(stack: World, tmp_path: Path) -> None:
    scenario = tmp_path / "refused.yaml"
    scenario.write_text(
        "name: refused\nfaults:\n  - kind: 400\n    message: not like this\nrules:\n  - reply: {text: never}\n"
    )
    ran = stack.run("run", "--rehearse", str(scenario), "-w", str(stack.workspace), "hi")
    assert ran.returncode == 1
    assert ran.stderr.decode().count("not like this") == 1


@pytest.mark.parametrize("form", [(), ("--json", "--stream")], ids=["lines", "stream"])
def test_a_long_silence_says_what_is_waited_for(stack: World, tmp_path: Path, form: tuple[str, ...]) -> None:
    scenario = tmp_path / "slow.yaml"
    scenario.write_text("name: slow\nlatency_seconds: 12\nrules:\n  - reply: {text: at last}\n")
    ran = stack.run("run", *form, "--rehearse", str(scenario), "-w", str(stack.workspace), "hi")
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"waiting for build: hi: " in ran.stderr


def _complete(environment: dict[str, str], *words: str) -> list[str]:
    """What the shell offers for the last of these words."""
    line = " ".join(words)
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    ran = subprocess.run(
        World.command(World(Path(), Path(), Path())),
        env={**environment, "_SWARM_COMPLETE": "complete_bash", **asked},
        capture_output=True,
        cwd=ROOT,
        timeout=60,
    )
    assert ran.stderr == b""
    return ran.stdout.decode().split()


@pytest.mark.long
def test_ids_types_models_and_rehearsals_are_completed(unmanned: Fleet) -> None:
    swarm = Swarm(Settings(**{**unmanned.settings.model_dump(), "key_prefix": f"complete{os.getpid()}"}))
    job = swarm.submit("look around", workspace=unmanned.workspace)
    environment = {**unmanned.environment(), "SWARM_KEY_PREFIX": swarm.settings.key_prefix}
    assert _complete(environment, "swarm", "tree", "job-") == [job.id]
    assert _complete(environment, "swarm", "transcript", "agent-") == [job.view().root_id]
    assert _complete(environment, "swarm", "approve", "question-") == []
    assert "build" in _complete(environment, "swarm", "run", "--agent", "b")
    assert _complete(environment, "swarm", "run", "--model", "o") == ["opus"]
    assert "hello" in _complete(environment, "swarm", "run", "--rehearse", "h")


def test_completion_without_a_redis_is_quiet_and_starts_nothing(world: World) -> None:
    assert _complete(world.environment(), "swarm", "tree", "job-") == []
    assert _complete(world.environment(SWARM_REDIS_URL="redis://127.0.0.1:9/0"), "swarm", "tree", "job-") == []
    assert not world.state.exists()


def test_a_closed_output_is_no_fault(world: World) -> None:
    ran = subprocess.run(["sh", "-c", "swarm tools >&-"], env=world.environment(), capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_command_of_the_person_is_told_of_the_end(stack: World) -> None:
    told = stack.workspace.parent / "told.json"
    ran = stack.run("run", "Hi", "--rehearse", "hello", "-q", "-w", str(stack.workspace), "--notify", f"tee '{told}'")
    assert ran.returncode == 0, ran.stderr.decode()
    event = json.loads(told.read_text())
    assert (event["type"], event["data"]["state"]) == ("swarm.job_ended.v1", "completed")
