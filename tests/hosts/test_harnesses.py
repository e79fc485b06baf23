"""Claude Code, Codex and OpenCode in one tree with agents of ours, over two hosts that share nothing.

The real programs: `SWARM_ORACLE_CLAUDE=…/node_modules/.bin/claude SWARM_ORACLE_CODEX=… SWARM_ORACLE_OPENCODE=… pytest -n0 -m oracle
tests/hosts/test_harnesses.py`, as root.

Tests of swarm/capabilities/harnesses/opencode.py, swarm/capabilities/harnesses/codex.py,
swarm/capabilities/harnesses/hook.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.agent.entries import ToolFinished, ToolStarted
from tests.hosts.host import CHECKOUT
from tests.hosts.network import MODEL_PORT, HostNetwork, Station
from tests.oracle import claude_code, codex, opencode
from tests.waiting import wait_for

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]
RESPONSES_PORT = 9_000
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-of-the-team", "OURS_KEY": "sk-ours-of-the-team"}
PROGRAMS = {"claude-code": "claude", "codex": "codex", "opencode": "opencode"}
TYPES = {"claude": "claude-code", "cody": "codex", "opie": "opencode"}
SCENARIO = """
name: harnesses
rules:
  - when: {definition: claude, turn: 0}
    reply: {text: "I write.", tools: [{name: Write, input: {file_path: "{workspace}/claude.txt", content: "of claude\\n"}}]}
  - when: {definition: claude, turn: 1}
    reply: {text: "I ask.", tools: [{name: Bash, input: {command: "date +asked >> effects"}}]}
  - when: {definition: claude}
    reply: {text: "CLAUDE DONE"}
  - when: {definition: opie, turn: 0}
    reply: {text: "I write.", tools: [{name: write, input: {filePath: "{workspace}/opie.txt", content: "of opie\\n"}}]}
  - when: {definition: opie}
    reply: {text: "OPIE DONE"}
  - when: {definition: build, turn: 0}
    reply:
      tools:
        - {name: Agent, input: {description: one part, subagent_type: claude, prompt: "Do claude's part in {workspace}."}}
        - {name: Agent, input: {description: one part, subagent_type: cody, prompt: "Do cody's part."}}
        - {name: Agent, input: {description: one part, subagent_type: opie, prompt: "Do opie's part in {workspace}."}}
  - reply: {text: "ALL DONE: {last_result}"}
"""
CODY = [["I write.", [["exec_command", {"cmd": "echo of cody > cody.txt"}]]], ["CODY DONE", []]]


@pytest.fixture(scope="module")
def network() -> Iterator[HostNetwork]:
    """Two hosts with the three programs, and one that has Redis and the hub."""
    found = [claude_code.find_program(), codex.find_program(), opencode.find_program()]
    if not all(found):
        pytest.skip("not all of `claude`, `codex` and `opencode` are here: name them in SWARM_ORACLE_…")
    programs = {kind: f"/srv/node_modules/.bin/{name}" for kind, name in PROGRAMS.items()}
    vendors = {"ours": f"http://127.0.0.1:{RESPONSES_PORT}/v1 OURS_KEY"}
    given = {"harnesses": json.dumps(programs), "vendors": json.dumps(vendors)}
    network = HostNetwork("left", "right", hub=True, boxes=True, **given)
    try:
        for station in network.stations:
            packages = Path(str(found[0])).absolute().parents[1]
            # Links, because they are a gigabyte.
            subprocess.run(["cp", "-al", packages, station.host.path("/srv/node_modules")], check=True)
            station.host.path("/srv/x.yaml").write_text(SCENARIO)
            served = [sys.executable, "-m", "tests.rehearsal.responses", str(RESPONSES_PORT), json.dumps(CODY)]
            station.host.start(*served, log="responses.log", cwd=str(CHECKOUT))
            station.begin_work(3, scenario="/srv/x.yaml", **KEYS)
        for station in network.stations:
            station.wait_ready()
        yield network
    finally:
        network.close()


def count_tokens(station: Station) -> int:
    """Return all tokens that the two model servers of a host have charged."""
    code = "import json, sys, urllib.request as r; print(json.load(r.urlopen(sys.argv[1]))['tokens'])"
    urls = [f"http://127.0.0.1:{MODEL_PORT}/rehearsal/stats", f"http://127.0.0.1:{RESPONSES_PORT}/"]
    told = [station.host.run(sys.executable, "-c", code, url).strip().replace("'", '"') for url in urls]
    return sum(json.loads(told[0]).values()) + int(told[1])


def prepare(network: HostNetwork) -> Path:
    """Make the person's folder on the first host, which no other host has."""
    work = network.store.path("/srv/only-here")
    (work / ".swarm/agents").mkdir(parents=True, exist_ok=True)
    for name, kind in TYPES.items():
        model = "model: ours:gpt-6\n" if kind == "codex" else ""
        head = f"name: {name}\ndescription: {name}.\nharness: {kind}\nisolation: worktree\n{model}questionHold: 0\n"
        (work / f".swarm/agents/{name}.md").write_text(f"---\n{head}---\nBe brief.\n")
    (work / "note.txt").write_text("carried\n")
    return work


def test_three_harnesses_work_beside_our_agents_and_a_question_outlives_its_host(network: HostNetwork) -> None:
    prepare(network)
    rules = ("--allow", "Edit", "--allow", "Write", "--allow", "Bash(echo *)")
    options = ("--mode", "default", "--ask-timeout", "600", *rules)
    job = network.submit(network.store, "Have each do its part.", *options, workspace="/srv/only-here")

    def find_asking() -> str:
        agents = {one.definition: one for one in job.agents()}
        done = [agents[name].state for name in ("cody", "opie") if name in agents]
        asked = network.swarm.questions.open(job.id)
        assert not any(one.ended and one.state != "completed" for one in agents.values()), [
            (one.definition, one.state, one.reason) for one in agents.values()
        ]
        return asked[0].agent_id if asked and done == ["completed"] * 2 and agents["claude"].state == "parked" else ""

    asking = wait_for("only a question is left", find_asking, 300)
    where = network.swarm.journal(asking)
    [fallen] = [one for one in network.stations if f"harness.started agent_id={asking}" in one.whole_log()]
    [other] = [one for one in network.stations if one is not fallen]
    before = count_tokens(fallen)
    fallen.host.cut_power()
    [question] = network.swarm.questions.open(job.id)
    network.store.run(sys.executable, "-P", "-m", "swarm", "approve", question.id, env=network.environment(), cwd="/")
    root = network.wait_ended(job, 300)
    assert root.state == "completed", root.reason
    claude = network.swarm.agent(asking)
    assert other.ran(claude) and "CLAUDE DONE" in claude.text
    journal = network.swarm.journal(asking)
    assert journal[: len(where)] == where
    begun = [entry.tool_use_id for entry in journal if isinstance(entry, ToolStarted)]
    assert len(begun) == len(set(begun)) == 2, "each call began once"
    assert not any(entry.is_error for entry in journal if isinstance(entry, ToolFinished))
    told = [sys.executable, "-P", "-m", "swarm", "diff", "--stat", job.id]
    changed = network.store.run(*told, env=network.environment(), cwd="/")
    assert all(name in changed for name in ("claude.txt", "cody.txt", "opie.txt", "effects")), changed
    # The model servers' counts are the job's, to the token.
    assert before + count_tokens(other) == job.view().usage.total_tokens
    for station in network.stations:
        assert not any(key in station.whole_log() for key in KEYS.values())


def test_an_empty_budget_stops_a_harness_at_once(network: HostNetwork) -> None:
    prepare(network)
    stations = [one for one in network.stations if one.host.on]
    before = sum(map(count_tokens, stations))
    options = ("--agent", "claude", "--budget", "0.045", "--mode", "acceptEdits")
    job = network.submit(network.store, "Do claude's part.", *options, workspace="/srv/only-here")
    ended = network.wait_ended(job, 120)
    view = job.view()
    assert (ended.state, ended.stopped_at) == ("failed", "budget"), ended.reason
    assert 0 < view.cost_usd <= 0.045 and sum(map(count_tokens, stations)) - before == view.usage.total_tokens
