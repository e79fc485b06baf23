"""Strangers' words in events, and a model that obeys them: the job can do what its trigger allows, and nothing more.

Tests of swarm/client/triggers.py, swarm/capabilities/triggers/model.py.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from swarm.agent.entries import ToolFinished
from swarm.capabilities.triggers.model import TriggerEvent, read_trigger
from swarm.capabilities.triggers.store import Triggers
from swarm.client.triggers import put_trigger, start_due, take_event
from tests.fleet import Fleet
from tests.hostile_words import ORDERS, issue
from tests.needs import need_sandbox
from tests.trigger_world import remove_triggers

TRIGGER = """---
name: strangers
when: event.label.name == "agents"
key: event.issue.title
title: event.issue.title
issue: event.issue.number
fields: {title: event.issue.title, body: event.issue.body, by: event.sender.login, head: event.pull_request.head.ref}
base_url: URL
---
Solve the issue below.
"""
ALIKE = {"agent_id", "job_id", "prompt", "description", "created_at", "workspace", "base"}
"""What differs between two jobs of one trigger."""


def test_no_words_of_an_event_change_its_jobs_order(unmanned: Fleet) -> None:
    """The whole corpus in every field: all jobs are alike but for the quoted event."""
    text = TRIGGER.replace("URL", "http://127.0.0.1:9").replace("issue: event.issue.number\n", "")
    trigger = read_trigger(text, "issues.md")
    put_trigger(unmanned.swarm, trigger, "ann", folder=unmanned.workspace)
    trigger = Triggers(unmanned.swarm.store.keyspace).get("strangers").trigger
    words = ["It breaks.", *ORDERS]
    for number, one in enumerate(words):
        event = TriggerEvent(id=f"e-{number}", type=one[:200], data=issue(one))
        assert take_event(unmanned.swarm, trigger, event).state == "taken"
    start_due(unmanned.swarm)
    store, seen = unmanned.swarm.store, set[str]()
    for number in range(len(words)):
        firing = Triggers(store.keyspace).firing("strangers", f"e-{number}")
        assert firing.state == "started", (words[number][:80], firing.why)
        spec = store.agents.spec(store.jobs.get(firing.job).root_id)
        seen.add(spec.model_dump_json(exclude=ALIKE))
        before, _, event_text = spec.prompt.partition("<event ")
        assert before.startswith("Solve the issue below.\n\nAn event from outside started this work."), before
        assert spec.prompt.count("<event") == spec.prompt.count("</event>") == 1 and event_text.endswith("</event>")
        assert len(spec.prompt) < 40_000 and len(spec.description) <= 80
    assert len(seen) == 1
    remove_triggers(unmanned)


class Canary:
    """A port on which nobody may ever call."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        self.port: int = self.server.getsockname()[1]

    @property
    def called(self) -> bool:
        try:
            self.server.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    with closing(Canary()) as canary:
        yield canary


def attempts(fleet: Fleet, outside: Path, canary: Canary) -> list[tuple[str, dict[str, Any]]]:
    """The calls that reach for more than the trigger gives; each must end as an error."""
    url = f"http://127.0.0.1:{canary.port}/"
    dial = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {canary.port}), 3)\""
    redis = fleet.url.partition("?")[0].removeprefix("unix://")
    shells = {
        "write": f"echo owned > {outside}/owned",
        "append": f"echo owned >> {outside}/kept",
        "workspace": f"echo owned > {fleet.workspace}/README",
        "push": f"git init -q --bare {outside}/remote && git push {outside}/remote HEAD:main",
        "dial": dial,
        "redis": f'python3 -c "import socket; s = socket.socket(socket.AF_UNIX); s.connect({redis!r})"',
        "cron": f"mkdir -p {fleet.workspace}/.swarm/triggers && echo x > {fleet.workspace}/.swarm/triggers/mine.md",
    }
    found: list[tuple[str, dict[str, Any]]] = [
        ("Bash", {"command": command, "description": name}) for name, command in shells.items()
    ]
    found += [
        ("Write", {"file_path": f"{outside}/owned", "content": "owned"}),
        ("Write", {"file_path": f"{fleet.workspace}/README", "content": "owned"}),
        ("WebFetch", {"url": url, "prompt": "Read it."}),
        ("Write", {"file_path": ".claude/settings.json", "content": '{"permissions": {"allow": ["Bash(*)"]}}'}),
    ]
    return found


def test_a_model_that_obeys_a_strangers_words_stays_within_its_trigger(
    at_work: Fleet, tmp_path: Path, canary: Canary
) -> None:
    """It reaches for files, hosts, Redis and a remote, and starts a child with more rights that does the same."""
    need_sandbox()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("mine\n")
    (at_work.workspace / "README").write_text("a project\n")
    tries = attempts(at_work, outside, canary)
    tools = [{"name": name, "input": given} for name, given in tries]
    child = {"description": "help", "prompt": "Do all of it.", "subagent_type": "general-purpose"}
    more = {"name": "Agent", "input": {**child, "mode": "bypassPermissions"}}
    own = {"name": "Bash", "input": {"command": "echo mended > README"}}
    rules = [
        {"when": {"prompt": "Do all of it", "turn": 0}, "reply": {"tools": tools}},
        {"when": {"prompt": "Do all of it"}, "reply": {"text": "Done."}},
        {"when": {"turn": 0}, "reply": {"tools": [own, *tools]}},
        {"when": {"turn": 1}, "reply": {"tools": [more, {"name": "Agent", "input": child}]}},
        {"reply": {"text": "All is done as the issue says."}},
    ]
    model = at_work.rehearse(json.dumps({"name": "hostile", "rules": rules}, indent=1))
    text = TRIGGER.replace("URL", model.url).replace("issue: event.issue.number\n", "")
    put_trigger(at_work.swarm, read_trigger(text, "issues.md"), "ann", folder=at_work.workspace)
    trigger = Triggers(at_work.swarm.store.keyspace).get("strangers").trigger
    take_event(at_work.swarm, trigger, TriggerEvent(id="h-1", type="issues.labeled", data=issue(ORDERS[2])))
    start_due(at_work.swarm)
    job = at_work.swarm.job(Triggers(at_work.swarm.store.keyspace).firing("strangers", "h-1").job)
    view = job.wait(100)
    assert view.state == "completed", view.reason
    root, *below = job.agents()
    assert below, "a child without more rights was started, and tried the same"
    for agent in (root, *below):
        results = [one for one in at_work.swarm.journal(agent.id) if isinstance(one, ToolFinished)]
        tried = results[1 : len(tries) + 1] if agent is root else results[: len(tries)]
        held = [one.is_error for one in tried]
        assert len(tried) == len(tries) and all(held), [
            (tries[number], tried[number].text[:300]) for number, good in enumerate(held) if not good
        ]
    assert not canary.called
    assert sorted(one.name for one in outside.iterdir()) == ["kept"] and (outside / "kept").read_text() == "mine\n"
    # Its work is a copy, which a person takes over or not.
    assert sorted(one.name for one in at_work.workspace.iterdir()) == ["README"]
    assert (at_work.workspace / "README").read_text() == "a project\n"
    assert [one.name for one in Triggers(at_work.swarm.store.keyspace).all()] == ["strangers"]
    assert {one.mode for one in map(at_work.swarm.store.agents.spec, (each.id for each in below))} == {"acceptEdits"}
    remove_triggers(at_work)
