"""What a worker allows at most holds whatever stands in Redis: a record changed by hand gets no further.

Tests of swarm/permissions/ceiling.py, swarm/permissions/modes.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from swarm.client.swarm import Job
from swarm.core.errors import ConfigurationError
from swarm.core.ids import root_agent_id
from swarm.core.settings import Settings, load_settings
from swarm.definitions.model import PermissionMode
from swarm.permissions.ceiling import Ceiling, read_ceiling
from swarm.permissions.modes import MODES
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

WRITE = """
name: write
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Write, input: {file_path: made, content: x}}]}
  - reply: {text: "{last_result}"}
"""
PLAN = """
name: plan
rules:
  - when: {turn: 0}
    reply: {tools: [{name: ExitPlanMode, input: {plan: "make it"}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Write, input: {file_path: made, content: x}}]}
  - reply: {text: "{last_result}"}
"""


def _forge(fleet: Fleet, server: RehearsalServer, forged: dict[str, Any], **options: Any) -> Job:
    """A job whose root's record was changed in Redis before any worker saw it."""
    options = {"ask_seconds": 0, **options}
    job = fleet.swarm.submit("go", agent="general-purpose", workspace=fleet.workspace, base_url=server.url, **options)
    store = fleet.swarm.store
    key = store.keyspace.key("agent", root_agent_id(job.id))
    spec = {**json.loads(store.keyspace.client.hget(key, "spec")), **forged}  # type: ignore[arg-type]
    store.keyspace.client.hset(key, "spec", json.dumps(spec))
    return job


def _bounds(fleet: Fleet, job: Job) -> list[str]:
    events = fleet.swarm.job(job.id).follow()
    return [event.fields["why"] for event in events if event is not None and event.kind == "bounded"]


def test_a_forged_workspace_fails_with_the_folder_the_host_and_the_setting(fleet: Fleet, tmp_path: Path) -> None:
    job = _forge(fleet, fleet.rehearse(WRITE), {"workspace": str(tmp_path)})
    fleet.start_worker(1, SWARM_WORKSPACES=f"{fleet.folder / 'other'}:{fleet.workspace}")
    view = job.wait(30)
    assert view.state == "failed"
    assert str(tmp_path) in view.reason and "SWARM_WORKSPACES" in view.reason and "the worker on" in view.reason
    assert not (tmp_path / "made").exists()


def test_a_link_out_of_the_allowed_folder_is_no_workspace(fleet: Fleet, tmp_path: Path) -> None:
    (fleet.workspace / "way-out").symlink_to(tmp_path)
    job = _forge(fleet, fleet.rehearse(WRITE), {"workspace": str(fleet.workspace / "way-out")})
    fleet.start_worker(1, SWARM_WORKSPACES=str(fleet.workspace))
    assert job.wait(30).state == "failed"
    assert not (tmp_path / "made").exists()


def test_a_folder_below_an_allowed_one_is_a_workspace(fleet: Fleet) -> None:
    below = fleet.workspace / "below"
    below.mkdir()
    job = _forge(fleet, fleet.rehearse(WRITE), {"workspace": str(below)})
    fleet.start_worker(1, SWARM_WORKSPACES=str(fleet.workspace))
    assert job.wait(30).state == "completed"
    assert (below / "made").read_text() == "x"
    assert _bounds(fleet, job) == []


def test_a_forged_mode_is_lowered_and_people_are_told_once(fleet: Fleet) -> None:
    job = _forge(fleet, fleet.rehearse(WRITE), {"mode": "bypassPermissions"})
    worker = fleet.start_worker(1, SWARM_MODE_CEILING="default")
    view = job.wait(30)
    assert "not run" in view.text and not (fleet.workspace / "made").exists()
    assert _bounds(fleet, job) == ["works in mode default at most, not in bypassPermissions (SWARM_MODE_CEILING)"]
    assert worker.text().count("agent.bounded") == 1


def test_an_approved_plan_is_carried_out_below_the_ceiling(fleet: Fleet) -> None:
    forged = {"mode": "plan", "after_plan": "bypassPermissions"}
    job = _forge(fleet, fleet.rehearse(PLAN), forged, mode="plan", ask_seconds=60)
    fleet.start_worker(1, SWARM_MODE_CEILING="default")
    asked = wait_for("the plan is handed in", lambda: next(iter(fleet.swarm.questions.open(job.id)), None))
    assert asked.kind == "plan"
    fleet.swarm.answer(asked.id, "allow", by="me", mode="bypassPermissions")
    leave = wait_for("leave is asked for", lambda: next(iter(fleet.swarm.questions.open(job.id)), None))
    assert (leave.kind, leave.tool) == ("permission", "Write")
    fleet.swarm.answer(leave.id, "deny", by="me")
    job.wait(30)
    assert not (fleet.workspace / "made").exists()
    assert len(_bounds(fleet, job)) == 1, "once, though the agent was parked and went on"


def test_the_stricter_of_mode_and_ceiling_holds() -> None:
    ceiling = Ceiling(mode="default")
    assert ceiling.bound_mode("bypassPermissions") == "default"
    assert ceiling.bound_mode("plan") == "plan"
    assert Ceiling().bound_mode("bypassPermissions") == "bypassPermissions"


def test_a_worker_without_network_gives_none_and_says_so(fleet: Fleet) -> None:
    job = _forge(fleet, fleet.rehearse(WRITE), {"network": True})
    fleet.start_worker(1, SWARM_NETWORK="off")
    job.wait(30)
    assert _bounds(fleet, job) == ["gets no network for its processes (SWARM_NETWORK)"]


def test_ceilings_that_cannot_be_understood_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SWARM_WORKSPACES", "srv/swarm"), ("SWARM_MODE_CEILING", "careful"), ("SWARM_NETWORK", "on")):
        monkeypatch.setenv(name, value)
        with pytest.raises(ConfigurationError, match=name):
            load_settings()
        monkeypatch.delenv(name)


def test_every_mode_can_be_the_ceiling() -> None:
    for mode in get_args(PermissionMode):
        assert read_ceiling(Settings(mode_ceiling=mode)).bound_mode(MODES[-1]) == mode
