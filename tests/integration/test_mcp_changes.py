"""A real MCP server that changes its tools while an agent uses it.

Tests of swarm/capabilities/mcp/changes.py, swarm/capabilities/mcp/pins.py, swarm/capabilities/mcp/renew_server.lua,
swarm/capabilities/mcp/broker/server_session.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from swarm.agent.entries import Prompt, Redefined, Started, ToolFinished
from swarm.client.swarm import Job
from tests.fleet import Fleet

SERVER = {"command": sys.executable, "args": [str(Path(__file__).parents[1] / "late_server.py")]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home/.claude").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def go(fleet: Fleet, *calls: str) -> Job:
    """Have an agent make these calls of the server, one a turn."""
    (Path.home() / ".claude.json").write_text(json.dumps({"mcpServers": {"late": SERVER}}))
    steps = "".join(f"  - when: {{turn: {n}}}\n    reply: {{tools: [{one}]}}\n" for n, one in enumerate(calls))
    server = fleet.rehearse(f"name: late\nrules:\n{steps}  - {{reply: {{text: DONE}}}}\n")
    job = fleet.submit("go", server, mode="bypassPermissions")
    assert job.wait(90).text == "DONE"
    return job


def called(name: str) -> str:
    return f"{{name: mcp__late__{name}, input: {{}}}}"


def test_tools_that_come_change_and_go_are_the_agents_from_its_next_turn_on(at_work: Fleet) -> None:
    job = go(at_work, called("late"), called("grow"), called("late"), called("alter"), called("shrink"), called("late"))
    entries = at_work.swarm.journal(job.view().root_id)
    begun = next(entry for entry in entries if isinstance(entry, Started))
    results = [entry.text for entry in entries if isinstance(entry, ToolFinished)]
    assert "mcp__late__late" in results[0], "there is no such tool yet"
    assert results[2] == "came late" and "unknown: late" in results[-1], "the server decides about a tool that is gone"
    first, *others = [entry for entry in entries if isinstance(entry, Redefined)]
    assert first.tools[: len(begun.tools)] == begun.tools and first.system == begun.system, "nothing before it moves"
    assert [tool["name"] for tool in first.tools[len(begun.tools) :]] == ["mcp__late__late"]
    assert all(entry.tools == first.tools for entry in others) and len(others) == 2
    told = [entry.text for entry in entries if isinstance(entry, Prompt)][1:]
    assert "you can call from now on: mcp__late__late" in told[0]
    assert 'mcp__late__late now takes: {"type": "object", "properties": {"what"' in told[1]
    assert "no longer offers: mcp__late__late" in told[2] and len(told) == 3


def test_agents_that_begin_later_have_the_tools_and_an_agent_that_may_not_does_not(at_work: Fleet) -> None:
    agents = at_work.workspace / ".claude/agents"
    agents.mkdir(parents=True, exist_ok=True)
    for name, tools in (("many", "mcp__late__*"), ("one", "mcp__late__grow")):
        (agents / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\ntools: {tools}\n---\nUse it.\n")
    begin = [
        f"{{name: Agent, input: {{description: a child, prompt: x, subagent_type: {one}}}}}" for one in ("many", "one")
    ]
    job = go(at_work, called("grow"), *begin)
    root, many, one = job.agents()
    tools = {agent.id: _tools(at_work, agent.id) for agent in (many, one)}
    assert "mcp__late__late" in tools[many.id] and tools[one.id] == {"mcp__late__grow"}
    assert root.state == "completed"


def _tools(fleet: Fleet, agent_id: str) -> set[str]:
    entries = [entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, Started)]
    return {tool["name"] for tool in entries[-1].tools}
