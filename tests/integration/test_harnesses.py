"""Other coding agents in the tree: rules, questions, money and files, with a strict stand-in for Claude Code's program.

Tests of swarm/capabilities/harnesses/adapter.py, swarm/capabilities/harnesses/claude_code.py,
swarm/capabilities/harnesses/decisions.py, swarm/capabilities/harnesses/gateway.py,
swarm/capabilities/harnesses/inside.py, swarm/capabilities/harnesses/kinds.py,
swarm/capabilities/harnesses/request_budget.py, swarm/capabilities/harnesses/run.py,
swarm/capabilities/harnesses/session.py, swarm/capabilities/harnesses/step.py,
swarm/capabilities/harnesses/store.py, swarm/capabilities/harnesses/worker.py,
swarm/capabilities/harnesses/alone.py, swarm/cli/harness_check.py, swarm/cli/proxy.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm import Job
from swarm.agent.entries import Assistant, Entry, ToolFinished, ToolStarted
from tests.claude_double import VERSION, install
from tests.fleet import Fleet
from tests.needs import need_sandbox
from tests.waiting import wait_for

KEY = "sk-the-real-key"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet of one worker with the harness, which a test may kill and replace."""
    need_sandbox("bubblewrap")
    program = install(tmp_path_factory.mktemp("claude"))
    with closing(Fleet(harnesses={"claude-code": str(program)})) as fleet:
        fleet.start_worker(3, ANTHROPIC_API_KEY=KEY)
        yield fleet


def define(fleet: Fleet, folder: Path, *keys: str) -> None:
    """Enter a workspace of its own, with an agent that is a harness."""
    (folder / ".swarm/agents").mkdir(parents=True)
    head = ["name: claude", "description: Claude Code.", "harness: claude-code", *keys]
    (folder / ".swarm/agents/claude.md").write_text("\n".join(["---", *head, "---", "Be brief.", ""]))
    fleet.workspace = folder


def script(*replies: str) -> str:
    """Return a scenario with these replies, one a turn; the last is repeated."""
    *turns, last = replies
    rules = [f"  - {{when: {{turn: {turn}}}, reply: {reply}}}" for turn, reply in enumerate(turns)]
    return "\n".join(["name: x", "rules:", *rules, f"  - {{reply: {last}}}", ""])


def shell(command: str) -> str:
    """Return a reply that runs a command."""
    return json.dumps({"text": "I run it.", "tools": [{"name": "Bash", "input": {"command": command}}]})


def entries_of(fleet: Fleet, job: Job) -> list[Entry]:
    return list(fleet.swarm.store.journals.read(job.view().root_id))


DONE = '{"text": "All done."}'


def test_it_works_like_any_agent_on_the_jobs_money_and_has_no_secret(fleet: Fleet, tmp_path: Path) -> None:
    define(fleet, tmp_path / "w", f"version: '>={VERSION} <3'")
    search = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; ls /tmp /run /proc/net/unix"
    written = {"file_path": str(fleet.workspace / "made.txt"), "content": "made\n"}
    made = json.dumps({"text": "I write.", "tools": [{"name": "Write", "input": written}]})
    server = fleet.rehearse(script(shell(search), made, DONE))
    job = fleet.submit("Make a file.", server, agent="claude", mode="acceptEdits", budget_usd=1.0)
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", "All done.")
    assert (fleet.workspace / "made.txt").read_text() == "made\n"
    entries = entries_of(fleet, job)
    found, wrote = (entry for entry in entries if isinstance(entry, ToolFinished))
    assert "ANTHROPIC_API_KEY=" in found.text and KEY not in found.text and "redis.sock" not in found.text
    assert "Created" in wrote.text
    assert [entry.tool_use_id for entry in entries if isinstance(entry, ToolStarted)] == [
        found.tool_use_id,
        wrote.tool_use_id,
    ]
    replies = [entry for entry in entries if isinstance(entry, Assistant)]
    assert [entry.usage.output_tokens > 0 for entry in replies] == [True] * 3
    # The server's own count, and the job's.
    told = server.stats()["tokens"]
    assert (view.usage.total_tokens, view.turns) == (sum(told.values()), 3)


def test_a_question_outlives_its_worker_and_continues_the_same_call(fleet: Fleet, tmp_path: Path) -> None:
    define(fleet, tmp_path / "w", "questionHold: 0")
    server = fleet.rehearse(script(shell("echo once >> effects"), DONE))
    job = fleet.submit("Do it.", server, agent="claude", mode="default")
    root = job.view().root_id
    fleet.wait_state(root, "parked")
    [question] = fleet.swarm.questions.open(job.id)
    assert question.title == "Bash echo once >> effects" and not (fleet.workspace / "effects").exists()
    fleet.workers[-1].kill()
    fleet.start_worker(3, ANTHROPIC_API_KEY=KEY)
    fleet.swarm.answer(question.id, "allow", by="ada")
    assert job.wait(60).state == "completed"
    assert (fleet.workspace / "effects").read_text() == "once\n"
    replies = [entry for entry in entries_of(fleet, job) if isinstance(entry, Assistant)]
    calls = [block["id"] for entry in replies for block in entry.content if block["type"] == "tool_use"]
    results = [entry for entry in entries_of(fleet, job) if isinstance(entry, ToolFinished)]
    assert [entry.tool_use_id for entry in results] == calls and not results[0].is_error


def test_a_person_can_answer_while_it_waits_and_a_rule_denies_at_once(fleet: Fleet, tmp_path: Path) -> None:
    define(fleet, tmp_path / "w", "questionHold: 60")
    server = fleet.rehearse(script(shell("echo asked"), shell("curl example.org"), DONE))
    job = fleet.swarm.submit(
        "Do it.", agent="claude", mode="default", workspace=fleet.workspace, base_url=server.url, deny=["Bash(curl *)"]
    )
    [question] = wait_for("a question", lambda: fleet.swarm.questions.open(job.id))
    assert fleet.swarm.agent(question.agent_id).state == "running"
    fleet.swarm.answer(question.id, "allow", by="ada")
    assert job.wait(60).state == "completed"
    asked, denied = (entry for entry in entries_of(fleet, job) if isinstance(entry, ToolFinished))
    assert asked.text == "asked" and not asked.is_error
    assert denied.is_error and denied.denied == "Bash (Bash(curl *))"


def test_an_empty_budget_ends_it_at_once(fleet: Fleet, tmp_path: Path) -> None:
    define(fleet, tmp_path / "w")
    server = fleet.rehearse(script(*[shell("true")] * 4, DONE))
    job = fleet.submit("Do it.", server, agent="claude", mode="acceptEdits", max_tokens=3_000)
    view = job.wait(60)
    assert (view.state, view.stopped_at, view.reason) == (
        "failed",
        "tokens",
        "the job's limit of 3,000 tokens is used up",
    )
    told = server.stats()
    assert view.usage.total_tokens == sum(told["tokens"].values()) <= 3_000 and told["by_status"] == {"200": view.turns}


def test_it_waits_for_a_worker_with_the_right_version(fleet: Fleet, tmp_path: Path) -> None:
    define(fleet, tmp_path / "w", "version: '>=3'")
    server = fleet.rehearse(script(DONE))
    job = fleet.submit("Do it.", server, agent="claude")
    assert wait_for("a lack", job.find_unmet) == f"it has claude-code {VERSION}, and the agent needs >=3"
    job.cancel()


def test_a_person_gives_a_program_of_their_own_models_within_a_budget(fleet: Fleet, tmp_path: Path) -> None:
    server = fleet.rehearse(script(DONE))
    code = (
        "import json, os, urllib.request as r\n"
        "body = {'model': 'claude-opus-5-5', 'max_tokens': 99, 'messages': [{'role': 'user', 'content': 'hi'}]}\n"
        "for key in (os.environ['ANTHROPIC_API_KEY'], 'none'):\n"
        "    asked = r.Request(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages', json.dumps(body).encode(), {'x-api-key': key})\n"
        "    try: print(json.load(r.urlopen(asked))['content'][0]['text'])\n"
        "    except r.HTTPError as error: print(error.code)\n"
    )
    environment = {**fleet.environment(), "SWARM_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY, "HOME": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "swarm",
        "proxy",
        "--budget",
        "1",
        "--model",
        "opus",
        "--",
        sys.executable,
        "-c",
        code,
    ]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("All done.\n401\n", 0), done.stderr
    [view] = [one for one in fleet.swarm.jobs() if one.title.startswith("requests of")]
    assert view.state == "completed" and view.usage.total_tokens == sum(server.stats()["tokens"].values())
    assert view.cost_usd and view.id in done.stderr
