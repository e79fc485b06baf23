"""The demonstration: its sample, its words, and the whole job on a real stack; only the model's words are rehearsed.

Tests of swarm/rehearsal/demo.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm import Settings, Swarm
from swarm.agent.entries import ToolFinished
from swarm.core.errors import ConfigurationError
from swarm.core.records import AgentView, JobView
from swarm.local.stack import temporary_stack
from swarm.rehearsal.demo import Demo, prepare_demo
from swarm.tools.registry import validate_input
from tests.rehearsal import RehearsalServer, SimulatedScenario, load_scenario
from tests.tool_world import make_world, tool_named

_PLACE = re.compile(r"`([\w/.]+\.(?:py|md)):(\d+)`(?:\s+`([^`]+)`)?")
"""How the scenario's texts name a place: `path:line`, and usually what stands there."""


@dataclass(frozen=True)
class Played:
    """What one run of the demo left behind."""

    demo: Demo
    before: int
    after: int
    diff: str
    job: JobView
    agents: list[AgentView]
    failed_tools: list[str]
    bash: list[str]


@pytest.fixture
def scenario() -> SimulatedScenario:
    return load_scenario("demo")


@pytest.fixture
def folder() -> Iterator[Path]:
    # A short path: the stack's sockets live in it.
    folder = Path(tempfile.mkdtemp(prefix="swarm-t-"))
    yield folder
    shutil.rmtree(folder)


def run_tests(demo: Demo) -> subprocess.CompletedProcess[str]:
    return subprocess.run(demo.test_command, cwd=demo.workspace, capture_output=True, text=True, timeout=60)


def git(demo: Demo, *arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=demo.workspace, capture_output=True, text=True, check=True)
    return ran.stdout


def edit_as_the_scenario_does(demo: Demo, scenario: SimulatedScenario) -> None:
    """Make the demo's changes with the real tools, without any agent."""
    world = make_world(demo.workspace.parent)
    world.ctx.workspace = demo.workspace.resolve()
    for call in (call for rule in scenario.rules for call in rule.reply.tools if call.name == "Edit"):
        world.call("Read", file_path=call.input["file_path"])
        world.call("Edit", **call.input)


def texts_of(scenario: SimulatedScenario) -> list[str]:
    replies = [rule.reply for rule in scenario.rules]
    prompts = [str(call.input["prompt"]) for reply in replies for call in reply.tools if call.name == "Agent"]
    return [*(reply.text for reply in replies if reply.text), *prompts]


def test_sample_fails_in_exactly_one_test_and_is_a_clean_repository(tmp_path: Path) -> None:
    demo = prepare_demo(tmp_path / "copy")
    ran = run_tests(demo)
    assert ran.returncode == 1
    assert "FAILED (failures=1)" in ran.stderr
    assert "test_seven_postcards_cost_what_the_shop_charges" in ran.stderr
    assert len(git(demo, "log", "--oneline").splitlines()) == 1
    assert git(demo, "status", "--porcelain") == ""


def test_without_a_target_every_copy_is_a_new_folder() -> None:
    first, second = prepare_demo(), prepare_demo()
    try:
        assert first.workspace != second.workspace
        assert (first.workspace / "till" / "tax.py").is_file()
    finally:
        for demo in (first, second):
            shutil.rmtree(demo.workspace.parent)


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="is not empty"):
        prepare_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_environment_of_another_repository_does_not_reach_the_copy(tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    # In a process of its own, as a Git hook would start it.
    script = f"from pathlib import Path; from swarm.rehearsal.demo import prepare_demo; prepare_demo(Path({str(tmp_path / 'c')!r}))"
    environment = {**os.environ, "GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    root = Path(__file__).resolve().parents[2]
    command = [prepare_demo(tmp_path / "x").test_command[0], "-c", script]
    subprocess.run(command, cwd=root, env=environment, check=True, timeout=60)
    assert (tmp_path / "c" / ".git").is_dir()
    assert not (other / ".git" / "index").exists()


def test_scenario_makes_only_calls_that_the_tools_accept(scenario: SimulatedScenario) -> None:
    calls = [call for rule in scenario.rules for call in rule.reply.tools]
    assert {call.name for call in calls} >= {"Agent", "Bash", "Edit", "Glob", "Grep", "Read"}
    for call in calls:
        validate_input(tool_named(call.name), call.input)


def test_every_place_that_the_scenario_names_is_there(scenario: SimulatedScenario, tmp_path: Path) -> None:
    before, after = prepare_demo(tmp_path / "before"), prepare_demo(tmp_path / "after")
    edit_as_the_scenario_does(after, scenario)
    places = [found for text in texts_of(scenario) for found in _PLACE.findall(text)]
    assert len(places) > 15
    for path, number, code in places:
        lines = [_line(demo.workspace / path, int(number)) for demo in (before, after)]
        assert any(line and code in line for line in lines), f"{path}:{number} is not {code!r} but {lines}"


def test_added_test_fails_without_the_correction(scenario: SimulatedScenario, tmp_path: Path) -> None:
    demo = prepare_demo(tmp_path / "copy")
    wrong = (demo.workspace / "till" / "tax.py").read_text()
    edit_as_the_scenario_does(demo, scenario)
    assert run_tests(demo).returncode == 0
    (demo.workspace / "till" / "tax.py").write_text(wrong)
    assert "140 != 142" in run_tests(demo).stderr


def test_demo_corrects_the_repository_with_agents_that_really_work(folder: Path, scenario: SimulatedScenario) -> None:
    played = play(folder, scenario)

    assert played.before == 1
    assert played.after == 0
    assert played.job.state == "completed", played.job.reason
    assert played.job.text.startswith("The tests pass"), played.job.text
    assert played.failed_tools == ["Bash"], "only the first run of the tests may fail"
    assert [text.splitlines()[-1] for text in played.bash] == ["[exit code 1]", "OK"]

    assert _changed(played.diff, "-") == [
        "    each = Fraction(line.net - discount, line.quantity)",
        "    return round_half_up(each * RATES[line.product.rate]) * line.quantity",
    ]
    assert "    return round_half_up((line.net - discount) * RATES[line.product.rate])" in _changed(played.diff, "+")

    kinds = [agent.definition for agent in played.agents]
    assert sorted(kinds) == ["build", "code-reviewer", "explore", "explore", "plan"]
    assert all(agent.state == "completed" and agent.tools >= 2 for agent in played.agents)
    explorers = [agent for agent in played.agents if agent.definition == "explore"]
    assert _overlap(*explorers), "the explorers did not run at the same time"


def play(folder: Path, scenario: SimulatedScenario) -> Played:
    """Run the demo as `swarm demo` does, on a stack of its own with two processes."""
    settings = Settings(state_dir=folder / "s", redis_url=None, base_url=None)
    demo = prepare_demo(folder / "till")
    before = run_tests(demo).returncode
    with RehearsalServer(scenario) as server, temporary_stack(settings, concurrency=2):
        swarm = Swarm(settings)
        job = swarm.submit(demo.prompt, workspace=demo.workspace, base_url=server.url)
        view = job.wait(60)
        agents = job.agents()
        failed: list[str] = []
        bash: list[str] = []
        for agent in agents:
            entries = swarm.journal(agent.id)
            names = {
                block["id"]: block["name"]
                for entry in entries
                if entry.kind == "assistant"
                for block in entry.content
                if block["type"] == "tool_use"
            }
            for entry in entries:
                if isinstance(entry, ToolFinished):
                    name = names[entry.tool_use_id]
                    failed += [name] if entry.is_error else []
                    bash += [entry.text] if name == "Bash" else []
    return Played(demo, before, run_tests(demo).returncode, git(demo, "diff"), view, agents, failed, bash)


def _overlap(first: AgentView, second: AgentView) -> bool:
    assert first.started_at and first.ended_at and second.started_at and second.ended_at
    return max(first.started_at, second.started_at) < min(first.ended_at, second.ended_at)


def _changed(diff: str, sign: str) -> list[str]:
    lines = (line for line in diff.splitlines() if line.startswith(sign) and not line.startswith(sign * 3))
    return [line.removeprefix(sign) for line in lines]


def _line(path: Path, number: int) -> str | None:
    with path.open(encoding="utf-8") as lines:
        return next(itertools.islice(lines, number - 1, None), None)
