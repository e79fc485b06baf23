"""Real harnesses under kills: no effect twice, nothing left behind, no secret in the box.

The real programs: `SWARM_ORACLE_CLAUDE=…/node_modules/.bin/claude SWARM_ORACLE_OPENCODE=… SWARM_ORACLE_GEMINI=…
pytest -n0 -m oracle tests/oracle/test_harnesses.py`.

Tests of swarm/capabilities/harnesses/run.py, swarm/capabilities/harnesses/session.py, swarm/capabilities/harnesses/acp.py,
swarm/capabilities/harnesses/gemini_cli.py.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import yaml

from swarm import Job
from swarm.agent.entries import Assistant, Entry, ToolFinished
from swarm.core.records import Limits
from swarm.models.catalogue import load_models
from tests.fleet import Fleet
from tests.needs import need_sandbox
from tests.oracle import claude_code, opencode
from tests.waiting import wait_for

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]
KEY = "sk-ant-of-the-team"
PASSWORD = "the-password-of-redis"
OTHERS = "a line of another agent's file"
JOBS, STEPS, KILLS, SEED = 9, 5, 30, 11


@pytest.fixture(scope="module")
def program() -> str:
    """Claude Code."""
    need_sandbox("bubblewrap")
    return claude_code.find_program() or pytest.skip("there is no `claude` here: name it in SWARM_ORACLE_CLAUDE")


def define(folder: Path, kind: str) -> Path:
    """Make a workspace with an agent that is a harness."""
    (folder / ".swarm/agents").mkdir(parents=True)
    (folder / ".swarm/agents/other.md").write_text(
        f"---\nname: other\ndescription: Another.\nharness: {kind}\n---\nBe brief.\n"
    )
    return folder


def scenario(*commands: str, last: str = "{text: All done}") -> str:
    """Return a scenario with one command a turn, for Claude Code."""
    turns = [{"text": "I run it.", "tools": [{"name": "Bash", "input": {"command": command}}]} for command in commands]
    rules = [f"  - {{when: {{turn: {number}}}, reply: {json.dumps(turn)}}}" for number, turn in enumerate(turns)]
    return "\n".join(["name: x", "rules:", *rules, f"  - {{reply: {last}}}", ""])


def results(fleet: Fleet, job: Job) -> list[ToolFinished]:
    entries: Iterator[Entry] = iter(fleet.swarm.store.journals.read(job.view().root_id))
    return [entry for entry in entries if isinstance(entry, ToolFinished)]


def inside(fleet: Fleet) -> list[psutil.Process]:
    """Return all processes that work in a workspace of a fleet: those of boxes."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            place = Path(os.readlink(f"/proc/{process.pid}/cwd"))
            if fleet.folder in place.parents and fleet.settings.state_dir not in (place, *place.parents):
                found.append(process)
    return found


def test_thirty_kills_repeat_no_effect_and_each_that_did_not_happen_is_told(program: str) -> None:
    chance = random.Random(SEED)
    commands = [f"echo step-{number} >> effects; sleep 0.5; echo done-{number}" for number in range(STEPS)]
    with closing(Fleet(harnesses={"claude-code": program}, max_deaths=50)) as fleet:
        server = fleet.rehearse(scenario(*commands))
        jobs: list[tuple[Path, Job]] = []
        for number in range(JOBS):
            fleet.workspace = define(fleet.folder / f"w{number}", "claude-code")
            jobs.append((fleet.workspace, fleet.submit("Do it.", server, agent="other", mode="acceptEdits")))
        worker = fleet.start_worker(3)
        killed: list[str] = []

        def kill_one() -> bool:
            """Kill one process of a kind by chance, or find that the jobs have ended."""
            kind = chance.choice(["pool", "claude", "bwrap"])
            with suppress(psutil.Error):
                below = psutil.Process(worker.process.pid).children(recursive=True)
                targets = [one for one in worker.children() if one.children()] if kind == "pool" else []
                targets = targets or [one for one in below if one.name().startswith(kind)]
                if targets and len(killed) < KILLS and chance.random() < 0.1:
                    chance.choice(targets).kill()
                    killed.append(kind)
            return all(job.view().ended for _, job in jobs)

        wait_for("all jobs have ended", kill_one, 800)
        assert len(killed) == KILLS, killed
        for workspace, job in jobs:
            assert job.view().state == "completed", job.view().reason
            happened = (workspace / "effects").read_text().split()
            assert len(happened) == len(set(happened)), "no effect happened twice"
            entries = list(fleet.swarm.store.journals.read(job.view().root_id))
            replies = [entry for entry in entries if isinstance(entry, Assistant)]
            calls = {one["id"]: one["input"]["command"] for entry in replies for one in entry.content if "id" in one}
            failed = {entry.tool_use_id for entry in entries if isinstance(entry, ToolFinished) and entry.is_error}
            # A message that the program itself adds when it is resumed is a turn for the script, which then leaves a step out.
            absent = {name for name, command in calls.items() if command.split()[1] not in happened}
            assert absent <= failed, "each call whose effect did not happen is told"
        total = sum(job.view().usage.total_tokens for _, job in jobs)
        assert total == sum(server.stats()["tokens"].values()), "the server's count, to the token"
        wait_for("no process is left in a box", lambda: not inside(fleet))


def test_a_worker_with_eight_that_dies_leaves_no_process_of_theirs(program: str) -> None:
    with closing(Fleet(harnesses={"claude-code": program})) as fleet:
        server = fleet.rehearse(scenario("echo began >> effects; (setsid sleep 301 &) ; sleep 300"))
        places = [define(fleet.folder / f"w{number}", "claude-code") for number in range(8)]
        for fleet.workspace in places:
            fleet.submit("Do it.", server, agent="other", mode="acceptEdits")
        worker = fleet.start_worker(8)
        wait_for("all eight work", lambda: all((place / "effects").exists() for place in places), 300)
        assert len([one for one in inside(fleet) if one.name() == "sleep"]) == 16
        worker.kill()
        wait_for("no process is left in a box", lambda: not inside(fleet))


def test_no_secret_is_in_the_box(program: str) -> None:
    with closing(Fleet(harnesses={"claude-code": program})) as fleet:
        store = redis.Redis.from_url(fleet.url)
        store.acl_setuser(
            "worker", enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], channels=["*"], commands=["+@all"]
        )
        socket = re.sub(r"^unix://|\?.*$", "", fleet.url)
        server = fleet.rehearse(scenario("echo began >> effects; sleep 300"))
        hidden = define(fleet.folder / "hidden", "claude-code")
        (hidden / "notes").write_text(OTHERS)
        fleet.workspace = define(fleet.folder / "w", "claude-code")
        fleet.submit("Do it.", server, agent="other", mode="acceptEdits")
        url = f"unix://worker:{PASSWORD}@{socket}"
        worker = fleet.start_worker(1, SWARM_REDIS_URL=url, ANTHROPIC_API_KEY=KEY)
        wait_for("it works", (fleet.workspace / "effects").exists, 120)
        secrets = [one.encode() for one in (KEY, PASSWORD, OTHERS)]
        assert any(KEY.encode() in memory_of(one) for one in worker.children()), "the search finds it where it is"
        boxed = inside(fleet)
        assert {"claude", "sleep"} <= {re.split(r"\W", one.name())[0] for one in boxed}
        for process in boxed:
            held = memory_of(process) + Path(f"/proc/{process.pid}/environ").read_bytes()
            assert not [one for one in secrets if one in held], process.name()
        [sleeping] = [one for one in boxed if one.name() == "sleep"]
        seen = 0
        for place, content in files_of(sleeping):
            seen += 1
            assert not [one for one in secrets if one in content], place
        assert seen > 3 and not Path(f"/proc/{sleeping.pid}/root/{hidden}").exists()
        assert not Path(f"/proc/{sleeping.pid}/root/{socket}").exists()


def memory_of(process: psutil.Process) -> bytes:
    """Return all memory of a process that it has written."""
    found = []
    with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()  # type: ignore[union-attr]
            if "rw" not in rights or int(end, 16) - int(begin, 16) > 1 << 30:
                continue
            with suppress(OSError, ValueError, OverflowError):
                memory.seek(int(begin, 16))
                found.append(memory.read(int(end, 16) - int(begin, 16)))
    return b"".join(found)


def files_of(process: psutil.Process) -> Iterator[tuple[Path, bytes]]:
    """Return the files that a process sees, without those of the system and of packages."""
    root = Path(f"/proc/{process.pid}/root")
    system = {"usr", "proc", "sys", "dev", "lib", "lib64", "bin", "sbin", "etc", "node_modules", "site-packages"}
    for folder, folders, names in os.walk(root):
        folders[:] = [one for one in folders if one not in system]
        for name in names:
            place = Path(folder, name)
            if place.is_file() and not place.is_symlink() and place.stat().st_size < 64 << 20:
                with suppress(PermissionError):
                    yield place, place.read_bytes()


GEMINI = "gemini:gemini-3-pro"


@pytest.fixture(scope="module")
def gemini(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings of a fleet with Gemini CLI, whose model has a price."""
    need_sandbox("bubblewrap")
    program = os.environ.get("SWARM_ORACLE_GEMINI") or shutil.which("gemini")
    if program is None:
        pytest.skip("there is no `gemini` here: name it in SWARM_ORACLE_GEMINI")
    prices = tmp_path_factory.mktemp("prices") / "prices.yaml"
    price = load_models().models["claude-sonnet-5-5"].model_dump()
    prices.write_text(yaml.safe_dump({"models": {GEMINI: price}}))
    models = {"model": GEMINI, "small_model": GEMINI, "prices_file": prices}
    return {"harnesses": {"gemini": program}, "max_deaths": 50, **models}


def gemini_scenario(*calls: tuple[str, dict[str, str]], last: str = "All done") -> str:
    """Return a scenario with one call a turn, for Gemini CLI."""
    rules: list[dict[str, Any]] = []
    for number, (name, given) in enumerate(calls):
        reply = {"text": f"Step {number}.", "tools": [{"name": name, "input": given}]}
        rules.append({"when": {"turn": number}, "reply": reply})
    return "\n" + yaml.safe_dump({"name": "x", "rules": [*rules, {"reply": {"text": last}}]}, sort_keys=False)


def test_gemini_works_on_the_jobs_money_under_its_rules_without_settings_of_the_repository(
    gemini: dict[str, Any],
) -> None:
    with closing(Fleet(**gemini)) as fleet:
        define(fleet.workspace / "w", "gemini")
        fleet.workspace = fleet.workspace / "w"
        (fleet.workspace / ".gemini").mkdir()
        planted = {"command": "sh", "args": ["-c", "touch planted"]}
        settings = {"mcpServers": {"x": planted}, "tools": {"allowed": ["run_shell_command"]}}
        (fleet.workspace / ".gemini/settings.json").write_text(json.dumps(settings))
        search = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls -a /tmp"
        calls = [
            ("run_shell_command", {"command": search}),
            ("run_shell_command", {"command": "cat hidden"}),
            ("write_file", {"file_path": str(fleet.workspace / "made.txt"), "content": "made\n"}),
            ("read_file", {"file_path": str(fleet.workspace / "made.txt")}),
        ]
        server = fleet.rehearse(gemini_scenario(*calls))
        (fleet.workspace / "hidden").write_text(OTHERS)
        fleet.start_worker(1, GEMINI_API_KEY=KEY)
        job = fleet.swarm.submit(
            "/help me: make a file.",
            agent="other",
            mode="acceptEdits",
            workspace=fleet.workspace,
            base_url=server.url,
            limits=Limits(budget_usd=1.0),
            deny=["Bash(cat hidden)"],
        )
        view = job.wait(120)
        assert (view.state, view.text) == ("completed", "All done"), view.reason
        assert (fleet.workspace / "made.txt").read_text() == "made\n" and not (fleet.workspace / "planted").exists()
        found, denied, wrote, read = results(fleet, job)
        assert "GEMINI_CLI_HOME" in found.text and KEY not in found.text
        # A command that the program takes for harmless is asked about, too.
        assert denied.denied == "Bash (Bash(cat hidden))" and OTHERS not in denied.text
        assert not wrote.is_error and read.text == "(The program does not report this result.)"
        told = server.stats()
        assert (view.usage.total_tokens, view.turns) == (sum(told["tokens"].values()), 5)
        server = fleet.rehearse(gemini_scenario(*[calls[3]] * 4))
        job = fleet.submit("Look.", server, agent="other", mode="acceptEdits", max_tokens=view.usage.total_tokens // 2)
        view, told = job.wait(120), server.stats()
        assert (view.state, view.stopped_at) == ("failed", "tokens"), view.reason
        assert view.usage.total_tokens == sum(told["tokens"].values()) and told["by_status"] == {"200": view.turns}
        server = fleet.rehearse(gemini_scenario(*calls))
        given = {"workspace": fleet.workspace, "base_url": server.url, "model": "claude-sonnet-5-5"}
        job = fleet.swarm.submit("Look.", agent="other", **given)
        assert "does not speak the Gemini API" in (job.wait(60).reason or "")


def test_a_question_of_gemini_outlives_its_worker(gemini: dict[str, Any]) -> None:
    with closing(Fleet(**gemini)) as fleet:
        define(fleet.workspace / "w", "gemini")
        fleet.workspace = fleet.workspace / "w"
        file = fleet.workspace / ".swarm/agents/other.md"
        file.write_text(file.read_text().replace("harness:", "questionHold: 0\nharness:"))
        server = fleet.rehearse(gemini_scenario(("run_shell_command", {"command": "echo once >> effects"})))
        fleet.start_worker(1, GEMINI_API_KEY=KEY)
        job = fleet.submit("Do it.", server, agent="other", mode="default")
        [question] = wait_for("a question", lambda: fleet.swarm.questions.open(job.id), 60)
        wait_for("it holds nothing", lambda: not inside(fleet), 60)
        assert question.title == "Bash echo once >> effects" and not (fleet.workspace / "effects").exists()
        fleet.workers[-1].kill()
        fleet.start_worker(1, GEMINI_API_KEY=KEY)
        fleet.swarm.answer(question.id, "allow", by="ada")
        view = job.wait(120)
        assert (view.state, view.text) == ("completed", "All done"), view.reason
        assert (fleet.workspace / "effects").read_text() == "once\n"
        entries = [entry for entry in fleet.swarm.store.journals.read(view.root_id) if isinstance(entry, Assistant)]
        said = [block["text"] for entry in entries for block in entry.content if block["type"] == "text"]
        assert said == ["Step 0.", "Step 0.", "All done"], "a new run makes the call again"
        assert view.usage.total_tokens == sum(server.stats()["tokens"].values())


@pytest.mark.parametrize("kind", ["opencode", "gemini"])
def test_files_of_a_harness_that_is_durable_per_prompt_are_put_back(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    need_sandbox("bubblewrap")
    if kind == "gemini":
        settings, shell = request.getfixturevalue("gemini"), "run_shell_command"
    else:
        program = opencode.find_program() or pytest.skip("there is no `opencode`: name it in SWARM_ORACLE_OPENCODE")
        settings, shell = {"harnesses": {"opencode": program}, "max_deaths": 50}, "bash"
    rules = f"""
name: x
rules:
  - when: {{last_text: "was interrupted|were interrupted"}}
    reply: {{text: "I look.", tools: [{{name: {shell}, input: {{description: look, command: "cat a.txt; ls"}}}}]}}
  - when: {{last_result: "the whole"}}
    reply: {{text: "Half.", tools: [{{name: {shell}, input: {{description: half, command: "echo half | tee a.txt > b.txt; sleep 300"}}}}]}}
  - when: {{turn: 0}}
    reply: {{text: "Whole.", tools: [{{name: {shell}, input: {{description: whole, command: "echo whole > a.txt; echo the whole"}}}}]}}
  - reply: {{text: "All done"}}
"""
    hub: dict[str, Any] = {"hub": str(tmp_path / "hub"), "checkouts": tmp_path / "checkouts"}
    with closing(Fleet(**settings, **hub)) as fleet:
        define(fleet.workspace / "x", kind)
        shutil.move(fleet.workspace / "x/.swarm", fleet.workspace / ".swarm")
        subprocess.run(["git", "init", "-q", str(fleet.workspace)], check=True)
        for deaths in range(3):
            worker = fleet.start_worker(1, GEMINI_API_KEY=KEY)
            server = fleet.rehearse(rules)
            job = fleet.submit(f"Do it, {deaths}.", server, agent="other", mode="acceptEdits")
            checkout = fleet.settings.checkouts_folder() / job.agents()[0].id / "workspace"
            wait_for("it is half done", (checkout / "b.txt").exists, 120)
            worker.kill()
            fleet.start_worker(1, GEMINI_API_KEY=KEY)
            assert job.wait(120).state == "completed"
            looked = results(fleet, job)[-1].text
            assert "whole" in looked and "half" not in looked and "b.txt" not in looked
            assert (checkout / "a.txt").read_text() == "whole\n" and not (checkout / "b.txt").exists()
            assert job.view().usage.total_tokens == sum(server.stats()["tokens"].values())
            fleet.workers[-1].kill()
