"""Instruction files as they arrive at the model: in the first message, once for siblings, and with what is read.

Tests of swarm/cli/context_view.py, swarm/capabilities/context/guidance.py, swarm/capabilities/variables/step.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm import Job
from swarm.agent.entries import Started, ToolFinished
from swarm.agent.history import History, fold
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer

LONG = "Standing orders, line after line.\n" * 300


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


def write(fleet: Fleet, path: str, text: str) -> None:
    file = fleet.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def history_of(fleet: Fleet, agent_id: str) -> History:
    # A store that has seen none of it, as a worker on another host.
    store = Store(fleet.swarm.store.keyspace.client, fleet.swarm.store.keyspace.prefix)
    return fold(agent_id, store.journals.read(agent_id), store.journals.read)


def spawning(fleet: Fleet, types: str) -> tuple[RehearsalServer, Job]:
    calls = ", ".join(
        f'{{name: Agent, input: {{description: child {n}, prompt: "child {n}", subagent_type: {kind}}}}}'
        for n, kind in enumerate(types.split())
    )
    server = fleet.rehearse(
        f"""
name: spawning
rules:
  - {{when: {{turn: 0, prompt: COORDINATE}}, reply: {{tools: [{calls}]}}}}
  - {{when: {{prompt: COORDINATE}}, reply: {{text: ALL}}}}
  - {{when: {{prompt: 'Standing orders'}}, reply: {{text: ORDERED}}}}
  - {{reply: {{text: FREE}}}}
"""
    )
    return server, fleet.submit("COORDINATE", server)


def test_siblings_begin_alike_and_read_from_the_cache_what_the_first_of_them_wrote(at_work: Fleet) -> None:
    write(at_work, "CLAUDE.md", LONG)
    server, job = spawning(at_work, "worker worker worker worker")
    assert job.wait(60).text == "ALL"
    children = job.agents()[1:]
    assert {child.text for child in children} == {"ORDERED"}
    lives = [history_of(at_work, child.id) for child in children]
    openings = {str((history.system, history.tools, history.messages[0]["content"][0])) for history in lives}
    assert len(openings) == 1 and "Standing orders" in openings.pop()
    assert all("Standing orders" not in history.system for history in lives)
    first, *others = sorted(
        (request for request in server.requests if request.definition == "worker"), key=lambda each: each.time
    )
    assert first.usage is not None and first.usage["cache_creation_input_tokens"] > 2_000
    for other in others:
        assert other.usage is not None
        # What is left to be written is the surroundings and the task.
        assert other.usage["cache_creation_input_tokens"] < 500 < 2_000 < other.usage["cache_read_input_tokens"]


def test_who_only_finds_things_out_is_given_none(at_work: Fleet) -> None:
    write(at_work, "CLAUDE.md", LONG)
    _, job = spawning(at_work, "explore general-purpose plan researcher")
    job.wait(60)
    texts = {child.label.split(":")[0]: child.text for child in job.agents()[1:]}
    assert texts == {"explore": "FREE", "general-purpose": "ORDERED", "plan": "FREE", "researcher": "FREE"}


def test_choices_of_settings_reach_commands_calls_and_reads(at_work: Fleet) -> None:
    chosen = {"env": {"GREETING": "hello", "MY_TOKEN": "x"}, "availableModels": ["sonnet"]}
    settings = Path.home() / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(chosen))
    write(at_work, "sub/.claude/rules/all.md", "rule below")
    write(at_work, "sub/a.txt", "x")
    server = at_work.rehearse(
        """
name: chosen
rules:
  - when: {turn: 0}
    reply:
      tools:
        - {name: Bash, input: {command: 'echo "[$GREETING$MY_TOKEN]"'}}
        - {name: Read, input: {file_path: sub/a.txt}}
        - {name: TeamCreate, input: {name: crew, agents: [{name: ada, prompt: x, subagent_type: worker, model: " opus"}]}}
        - {name: Agent, input: {description: a child, prompt: x, subagent_type: worker, model: OPUS}}
  - {reply: {text: DONE}}
"""
    )
    job = at_work.submit("go", server)
    assert job.wait(60).text == "DONE"
    entries = at_work.swarm.journal(job.view().root_id)
    said, read, founded, started = [entry.text for entry in entries if isinstance(entry, ToolFinished)]
    assert "[hello]" in said and "rule below" in read
    assert "the rule Agent(model:opus) of `availableModels` of settings" in started
    assert "Not started: ada" in founded and "`availableModels` of settings" in founded


def test_the_text_is_kept_once_and_the_journal_names_it(at_work: Fleet) -> None:
    write(at_work, "CLAUDE.md", LONG)
    _, job = spawning(at_work, "worker worker")
    job.wait(60)
    store = at_work.swarm.store
    stored = [
        fields["e"]
        for agent in job.agents()
        for _, fields in store.keyspace.client.xrange(store.keyspace.key("journal", agent.id))
    ]
    assert not any("Standing orders" in document for document in stored)
    [first, *_] = store.journals.read(job.view().root_id)
    assert isinstance(first, Started) and first.guidance.count("Standing orders") == 300
    kept = store.jobs.document(first.instructions)
    assert kept is not None and "Standing orders" in kept


def test_a_job_that_switches_them_off_has_none(at_work: Fleet) -> None:
    write(at_work, "CLAUDE.md", LONG)
    server = at_work.rehearse("name: x\nrules:\n  - {reply: {text: DONE}}\n")
    job = at_work.swarm.submit(
        "go", workspace=at_work.workspace, base_url=server.url, instruction_files=False, agent="general-purpose"
    )
    job.wait(60)
    assert "Standing orders" not in str(history_of(at_work, job.view().root_id).messages)


def test_nested_files_and_rules_come_once_with_the_first_read_that_reaches_them(at_work: Fleet) -> None:
    write(at_work, "pay/CLAUDE.md", "Amounts are integers.")
    write(at_work, ".claude/rules/py.md", "---\npaths: '**/*.py'\n---\nAnnotate everything.")
    for name in ("a", "b"):
        write(at_work, f"pay/{name}.py", "x = 1\n")
    server = at_work.rehearse(
        """
name: reads
rules:
  - when: {turn: 0}
    reply:
      tools:
        - {name: Read, input: {file_path: pay/a.py}}
        - {name: Read, input: {file_path: pay/b.py}}
  - {when: {turn: 1}, reply: {tools: [{name: Read, input: {file_path: pay/b.py}}]}}
  - {reply: {text: DONE}}
"""
    )
    job = at_work.submit("go", server)
    assert job.wait(60).text == "DONE"
    root = job.view().root_id
    results = [entry for entry in at_work.swarm.journal(root) if isinstance(entry, ToolFinished)]
    assert [entry.instructions for entry in results] == [["pay/CLAUDE.md", ".claude/rules/py.md"], [], []]
    assert '<file path="pay/CLAUDE.md">\nAmounts are integers.\n</file>' in results[0].text
    assert "Annotate everything." in results[0].text
    history = history_of(at_work, root)
    assert history.guided == {"pay/CLAUDE.md", ".claude/rules/py.md"}
    assert str(history.messages).count("Amounts are integers.") == 1
