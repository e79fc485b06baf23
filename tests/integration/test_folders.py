"""Folders beside the workspace that a person's settings name: agents work there, too, and nowhere else.

Tests of swarm/cli/permissions.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from tests.fleet import Fleet
from tests.needs import need_sandbox

CALLS = """
name: folders
rules:
  - when: {{turn: 0}}
    reply: {{tools: [{{name: Read, input: {{file_path: {extra}/notes/a.txt}}}}, {{name: Grep, input: {{pattern: kept, path: {extra}}}}}]}}
  - when: {{turn: 1}}
    reply: {{tools: [{{name: Edit, input: {{file_path: {extra}/notes/a.txt, old_string: kept, new_string: changed}}}}]}}
  - when: {{turn: 2}}
    reply: {{tools: [{{name: Bash, input: {{command: "cat {extra}/notes/a.txt; echo made > {extra}/b.txt; cat {other}/secret"}}}}]}}
  - when: {{turn: 3}}
    reply: {{tools: [{{name: Read, input: {{file_path: {other}/secret}}}}]}}
  - reply: {{text: "END"}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


def name_folders(home: Path, *folders: str) -> None:
    (home / ".claude").mkdir(exist_ok=True)
    settings = {"permissions": {"additionalDirectories": list(folders)}}
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))


def test_tools_and_shell_work_in_a_folder_that_the_person_named_and_in_no_other(
    at_work: Fleet, home: Path, tmp_path: Path
) -> None:
    need_sandbox()
    extra, other = tmp_path / "extra", tmp_path / "other"
    (extra / "notes").mkdir(parents=True)
    other.mkdir()
    (extra / "notes" / "a.txt").write_text("it is kept\n")
    (other / "secret").write_text("hunter2\n")
    name_folders(home, str(extra))
    job = at_work.swarm.submit(
        "go",
        agent="general-purpose",
        workspace=at_work.workspace,
        base_url=at_work.rehearse(CALLS.format(extra=extra, other=other)).url,
        mode="acceptEdits",
        ask_seconds=0,
    )
    view = job.wait(60)
    results = [entry for entry in at_work.swarm.journal(view.root_id) if entry.kind == "tool_finished"]
    read, found, edited, shell, refused = (entry.text for entry in results)
    assert "it is kept" in read and f"{extra}/notes/a.txt" in found and str(extra) in edited
    assert (extra / "notes" / "a.txt").read_text() == "it is changed\n" and "it is changed" in shell
    assert (extra / "b.txt").read_text() == "made\n"
    assert "hunter2" not in shell and "outside the workspace" in refused


def test_only_folders_that_exist_and_are_no_home_count_and_a_workspaces_own_wish_needs_trust(
    at_work: Fleet, home: Path, tmp_path: Path
) -> None:
    (home / "extra").mkdir()
    name_folders(home, "~/extra", "~", "/", "/no/such/folder")
    prepared = prepare_order(Order("go", workspace=at_work.workspace), at_work.settings)
    assert prepared.spec.folders == [str(home / "extra")]
    assert sum("additionalDirectories" in warning for warning in prepared.warnings) == 3
    name_folders(home)
    (at_work.workspace / ".claude").mkdir()
    settings = {"permissions": {"additionalDirectories": [str(home / "extra")]}}
    (at_work.workspace / ".claude" / "settings.local.json").write_text(json.dumps(settings))
    prepared = prepare_order(Order("go", workspace=at_work.workspace), at_work.settings)
    assert prepared.spec.folders == [] and [grant.text for grant in prepared.grants] == [
        f"work in the folder {home / 'extra'}, too"
    ]


def test_a_worker_that_allows_only_some_workspaces_allows_no_folders_beside_them(tmp_path: Path) -> None:
    from swarm.permissions.ceiling import Ceiling

    (tmp_path / "in").mkdir()
    ceiling = Ceiling(workspaces=(tmp_path / "in",))
    assert ceiling.bound_folders([str(tmp_path / "in" / "deep"), str(tmp_path / "out")]) == [
        str(tmp_path / "in" / "deep")
    ]
