"""What docs/coming-from.md says of other systems' tools: every call of its right columns is made, and does what it is there for.

Tests of docs/coming-from.md, swarm/tools/messages.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm import Job
from swarm.core.records import JobView
from tests.fleet import Fleet
from tests.waiting import wait_for

_DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
_CALL = re.compile(r"`([A-Z]\w+)\{([^}]*)\}`")

# The first rules of each scenario, for the agents that the root starts.
_OTHERS = """
  - when: {prompt: '^hang', last_text: 'go on after all'}
    reply: {text: went on}
  - when: {prompt: '^hang'}
    reply: {text: never, latency_seconds: 100}
  - when: {prompt: '^work', last_text: 'and again'}
    reply: {text: worked again}
  - when: {prompt: '^work', last_text: 'once more'}
    reply: {text: worked once more}
  - when: {prompt: '^work'}
    reply: {text: worked}
  - when: {prompt: '^mate', last_text: 'request_id="(?P<id>request-\\w+)"'}
    reply: {tools: [
      {name: SendMessage, input: {to: lead, message: bye, kind: shutdown_response, request_id: '{id}', approve: true}}]}
  - when: {prompt: '^mate'}
    reply: {text: ready}
  - when: {last_text: 'forked work'}
    reply: {text: the fork worked}
"""
_SCENARIOS = {
    "Codex": """
  - when: {turn: 0}
    reply: {tools: [
      {name: Agent, input: {description: o, prompt: work, subagent_type: explore, run_in_background: true, name: one}},
      {name: Agent, input: {description: t, prompt: hang, subagent_type: explore, run_in_background: true, name: two}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Agent, input: {description: f, prompt: forked work, fork: true}}]}
  - when: {turn: 2}
    reply: {tools: [{name: SendMessage, input: {to: two, message: news}}, {name: ListAgents, input: {}}]}
  - when: {turn: 3}
    reply: {tools: [{name: WaitAgents, input: {agent_ids: [one, two], mode: any, timeout_seconds: 60}}]}
  - when: {turn: 4}
    reply: {tools: [{name: Agent, input: {description: a, agent_id: one, prompt: and again}}]}
  - when: {turn: 5}
    reply: {tools: [{name: SendMessage, input: {to: one, message: once more}}, {name: StopAgent, input: {agent_id: two}}]}
  - when: {turn: 6}
    reply: {tools: [
      {name: Agent, input: {description: b, agent_id: two, prompt: go on after all}},
      {name: Agent, input: {description: e, prompt: work, model: haiku, effort: high}}]}
  - reply: {text: '{last_text}'}
""",
    "DeepAgents": """
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: o, prompt: work, subagent_type: explore}}]}
  - when: {turn: 1}
    reply: {tools: [
      {name: Agent, input: {description: o, prompt: work, subagent_type: explore, run_in_background: true, name: one}},
      {name: Agent, input: {description: t, prompt: hang, subagent_type: explore, run_in_background: true, name: two}}]}
  - when: {turn: 2}
    reply: {tools: [{name: WaitAgents, input: {agent_ids: [one], timeout_seconds: 60}}]}
  - when: {turn: 3}
    reply: {tools: [
      {name: ReadAgent, input: {agent_id: one}},
      {name: SendMessage, input: {to: one, message: once more}},
      {name: ListAgents, input: {}},
      {name: StopAgent, input: {agent_id: two}}]}
  - reply: {text: '{last_text}'}
""",
    "OpenCode": """
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: o, prompt: work, subagent_type: explore, name: one}}]}
  - when: {turn: 1}
    reply: {tools: [
      {name: Agent, input: {description: a, agent_id: one, prompt: and again}},
      {name: Agent, input: {description: a, agent_id: agent-0123456789abcdef, prompt: and again}}]}
  - when: {turn: 2}
    reply: {tools: [{name: Agent, input: {description: b, prompt: work, run_in_background: true}}]}
  - when: {turn: 3}
    reply: {tools: [{name: EnterPlanMode, input: {}}]}
  - when: {turn: 4}
    reply: {tools: [{name: ExitPlanMode, input: {plan: '# It'}}]}
  - when: {turn: 5}
    reply: {tools: [{name: AskUserQuestion, input: {question: 'which?', options: [this, that]}}]}
  - reply: {text: '{last_text}'}
""",
    "Claude Code": """
  - when: {turn: 0}
    reply: {tools: [
      {name: Agent, input: {description: o, prompt: work, name: one, run_in_background: true}},
      {name: Agent, input: {description: t, prompt: hang, name: two, run_in_background: true}},
      {name: Agent, input: {description: f, prompt: forked work, subagent_type: fork}},
      {name: Agent, input: {description: g, prompt: forked work, fork: true, subagent_type: explore}},
      {name: Agent, input: {description: h, prompt: work, model: haiku, mode: plan, cwd: .}},
      {name: Agent, input: {description: i, prompt: work, isolation: worktree}},
      {name: WaitAgents, input: {agent_ids: [one]}}]}
  - when: {turn: 1}
    reply: {tools: [
      {name: ReadAgent, input: {agent_id: one}},
      {name: SendMessage, input: {to: one, message: once more}}, {name: StopAgent, input: {agent_id: two}}]}
  - when: {turn: 2}
    reply: {tools: [
      {name: TeamCreate, input: {name: crew, strategy: parallel, agents: [{name: first, prompt: mate}]}},
      {name: BoardAdd, input: {subject: the thing}}]}
  - when: {turn: 3}
    reply: {tools: [
      {name: BoardList, input: {}}, {name: BoardClaim, input: {task_id: 1}}, {name: BoardComplete, input: {task_id: 1, result: done}}]}
  - when: {turn: 4}
    reply: {tools: [
      {name: Agent, input: {description: m, prompt: mate, name: mate, teammate: true}},
      {name: Agent, input: {description: m, prompt: mate, name: third, team_name: crew}},
      {name: SendMessage, input: {to: first, message: leave, kind: shutdown_request}}]}
  - when: {turn: 5}
    reply: {tools: [
      {name: SendMessage, input: {to: third, message: leave, kind: shutdown_request}},
      {name: SendMessage, input: {to: mate, message: leave, kind: shutdown_request}}]}
  - when: {last_text: '<name>mate</name>\\n<status>completed'}
    reply: {tools: [{name: TeamDelete, input: {force: true}}]}
  - when: {last_result: '[\\s\\S]'}
    reply: {text: 'the end'}
  - reply: {text: waiting}
""",
    "learn-claude-code": """
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Agent, input: {description: m, prompt: mate, name: mate, role: tester, teammate: true}}]}
  - when: {turn: 2}
    reply: {tools: [
      {name: SendMessage, input: {to: mate, message: once more}}, {name: SendMessage, input: {to: '*', message: to all}}]}
  - when: {turn: 3}
    reply: {tools: [{name: SendMessage, input: {to: mate, message: leave, kind: shutdown_request}}]}
  - reply: {text: '{last_text}'}
""",
}


def _rows(system: str) -> list[tuple[str, str]]:
    """The left and the right side of each row of that system's table."""
    section = re.split(r"^###? ", _DOCUMENT.read_text(), flags=re.MULTILINE)
    [body] = [text for text in section if text.startswith(system + "\n")]
    found = []
    for line in body.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "there":
            found.append((cells[0], cells[1]))
    return found


def _calls(fleet: Fleet, job: Job) -> list[tuple[str, dict[str, Any], bool]]:
    """Every call of every agent of the job: its tool, its input, and whether it was refused."""
    found = []
    for agent in job.agents():
        journal = fleet.swarm.journal(agent.id)
        failed = {e.tool_use_id: e.is_error for e in journal if e.kind == "tool_finished"}
        for entry in journal:
            if entry.kind == "assistant":
                calls = [block for block in entry.content if block.get("type") == "tool_use"]
                found += [(call["name"], call["input"], failed.get(call["id"], True)) for call in calls]
    return found


def _is_made(name: str, fields: str, calls: list[tuple[str, dict[str, Any], bool]]) -> bool:
    wanted = yaml.safe_load("{" + fields + "}") or {}
    return any(
        made == name
        and not failed
        and all(key in given and (value is None or given[key] == value) for key, value in wanted.items())
        for made, given, failed in calls
    )


@pytest.mark.parametrize("system", list(_SCENARIOS))
def test_every_call_of_a_table_is_made_and_works(at_work: Fleet, system: str) -> None:
    server = at_work.rehearse(f"\nname: mapping\nrules:{_OTHERS}{_SCENARIOS[system]}")
    job = at_work.submit("go", server)
    view = _wait(at_work, job)
    assert view.state == "completed", view.reason
    assert server.stats()["unmatched"] == []
    calls = _calls(at_work, job)
    rows = _rows(system)
    assert len(rows) >= 3
    for there, here in rows:
        named = _CALL.findall(here)
        assert named or "nothing" in here, there
        for name, fields in named:
            assert _is_made(name, fields, calls), (there, name, fields, calls)
    _CHECKS[system](at_work, job, view.text)


def _wait(fleet: Fleet, job: Job) -> JobView:
    """The job at its end; what it asks meanwhile is answered."""

    def answer_or_end() -> bool:
        for question in fleet.swarm.questions.open(job.id):
            fleet.swarm.answer(question.id, "this" if question.kind == "question" else "allow")
        return job.view().ended

    wait_for("the job has ended", answer_or_end, 60)
    return job.view()


def _agent_states(job: Job) -> dict[str, tuple[str, str]]:
    return {agent.name or agent.label: (agent.state, agent.text) for agent in job.agents()}


def _mail(fleet: Fleet, job: Job) -> str:
    return "\n".join(entry.text for entry in fleet.swarm.journal(job.view().root_id) if entry.kind == "mail")


def _results(fleet: Fleet, job: Job) -> str:
    return "\n".join(entry.text for entry in fleet.swarm.journal(job.view().root_id) if entry.kind == "tool_finished")


def _check_codex(fleet: Fleet, job: Job, text: str) -> None:
    states = _agent_states(job)
    assert states["one"] == ("completed", "worked once more")
    assert states["two"] == ("completed", "went on")
    assert "the fork worked" in _results(fleet, job) and "worked again" in _results(fleet, job)
    assert _mail(fleet, job).count("<result>worked</result>") == 1
    assert _mail(fleet, job).count("<result>worked once more</result>") == 1


def _check_deepagents(fleet: Fleet, job: Job, text: str) -> None:
    states = _agent_states(job)
    assert states["one"] == ("completed", "worked once more") and states["two"][0] == "cancelled"
    assert "\n\nworked" in _results(fleet, job)
    assert _mail(fleet, job).count("<result>worked</result>") == 1


def _check_opencode(fleet: Fleet, job: Job, text: str) -> None:
    results = _results(fleet, job)
    assert "worked again" in results and "there is no agent 'agent-0123456789abcdef'" in results
    assert len(job.agents()) == 3
    assert _mail(fleet, job).count("<result>worked</result>") == 1


def _check_claude_code(fleet: Fleet, job: Job, text: str) -> None:
    states = _agent_states(job)
    assert states["one"] == ("completed", "worked once more")
    assert states["two"][0] == "cancelled" and states["mate"][0] == "completed"
    assert "Approved. bye" in _mail(fleet, job)
    assert "the fork worked" in _results(fleet, job)


def _check_learn(fleet: Fleet, job: Job, text: str) -> None:
    assert _agent_states(job)["mate"][0] == "completed"
    mate = next(agent for agent in job.agents() if agent.name == "mate")
    heard = "\n".join(entry.text for entry in fleet.swarm.journal(mate.id) if entry.kind == "mail")
    assert heard.count("once more") == heard.count("to all") == 1
    assert "Approved. bye" in _mail(fleet, job)


_CHECKS = {
    "Codex": _check_codex,
    "DeepAgents": _check_deepagents,
    "OpenCode": _check_opencode,
    "Claude Code": _check_claude_code,
    "learn-claude-code": _check_learn,
}


def test_every_system_of_the_page_has_its_scenario() -> None:
    page = _DOCUMENT.read_text()
    named = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    assert sorted(named) == sorted(_SCENARIOS) == sorted(_CHECKS)
