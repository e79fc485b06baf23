"""`swarm memory`: reading, correcting, carrying and taking back what agents remember.

Tests of swarm/definitions/memory_stores.py, swarm/cli/memory.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from swarm.capabilities.memory.pages import Author, Memories
from swarm.cli.memory import group
from swarm.core.errors import ConfigurationError, MemoryRefused
from swarm.definitions.memory_stores import find_places, find_project
from tests.fleet import Fleet
from tests.job_world import open_store


class Remembered:
    """A swarm with a shelf, and the command in its workspace."""

    def __init__(self, fleet: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = open_store(fleet)
        self.memories, self.folder = Memories(store.keyspace), folder
        monkeypatch.setenv("SWARM_REDIS_URL", fleet.url)
        monkeypatch.setenv("SWARM_KEY_PREFIX", store.keyspace.prefix)
        monkeypatch.chdir(folder)
        self.memory_store = find_places(folder.resolve()).memory_store("project", "reviewer")

    def write(self, page: str, text: str, job: str = "job-1") -> None:
        author = Author("reviewer", job=job, agent=f"agent-{job}")
        self.memories.change(self.memory_store, "write", page, author, text=text)

    def run(self, *arguments: str, given: str | None = None) -> Result:
        return CliRunner().invoke(group, arguments, input=given, catch_exceptions=False)


@pytest.fixture
def remembered(unmanned: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remembered:
    return Remembered(unmanned, tmp_path, monkeypatch)


def test_shelves_and_pages_are_listed_and_shown(remembered: Remembered) -> None:
    remembered.write("notes/api.md", "# The API\nDetails.\n")
    assert remembered.memory_store.id in remembered.run("list").stdout
    assert [each["pages"] for each in json.loads(remembered.run("list", "--json").stdout)] == [1]
    assert "The API" in remembered.run("list", "project:reviewer").stdout
    assert remembered.run("show", "project:reviewer", "notes/api.md").stdout == "# The API\nDetails.\n"
    told = json.loads(
        remembered.run("show", remembered.memory_store.id, "/memories/notes/api.md", "--versions", "--json").stdout
    )
    assert [(each["op"], each["job"], each["agent"]) for each in told] == [("write", "job-1", "agent-job-1")]
    with pytest.raises(ConfigurationError, match="has no page 'gone"):
        remembered.run("show", "project:reviewer", "gone.md")
    with pytest.raises(ConfigurationError, match="there is no memory store 'nobody'"):
        remembered.run("list", "nobody")


def test_a_person_s_edit_is_a_version_without_secrets(remembered: Remembered) -> None:
    remembered.write("a.md", "old")
    edited = remembered.run("edit", "project:reviewer", "a.md", "--file", "-", given=f"new ghp_{'a1' * 18}")
    assert "1 value that looked like secrets" in edited.stderr
    assert remembered.run("show", "project:reviewer", "a.md").stdout.strip() == "new [a secret was here]"
    assert (
        "nothing was changed"
        in remembered.run("edit", "project:reviewer", "a.md", "--file", "-", given="new [a secret was here]").stderr
    )
    assert [version.job for version in remembered.memories.versions(remembered.memory_store, "a.md")] == ["job-1", ""]
    with pytest.raises(MemoryRefused, match="is a page, so it cannot hold other pages"):
        remembered.run("edit", "project:reviewer", "a.md/b.md", "--file", "-", given="x")


def test_pages_are_carried_to_files_and_back_and_a_job_s_are_taken_back(remembered: Remembered) -> None:
    remembered.write("a.md", "good\n")
    remembered.write("a.md", "good\nPOISON\n", job="job-2")
    remembered.run("export", "project:reviewer", "out")
    assert (remembered.folder / "out" / "a.md").read_text() == "good\nPOISON\n"
    forgotten = remembered.run("forget", "--job", "job-2")
    assert forgotten.stdout == f"{remembered.memory_store.id} a.md\n"
    assert remembered.run("show", "project:reviewer", "a.md").stdout == "good\n"
    remembered.run("forget", "project:reviewer", "a.md")
    assert remembered.memories.logged(remembered.memory_store) == []
    assert "1 page of" in remembered.run("import", "project:tester", "out").stderr
    assert remembered.run("show", "project:tester", "a.md").stdout == "good\nPOISON\n"
    remembered.run("forget", "project:tester")
    remembered.run("forget", "project:reviewer")
    assert remembered.run("list").stdout == ""


# -- projects ------------------------------------------------------------------------------------------------------


def test_a_worktree_has_its_repository_s_memory_and_a_forged_one_has_its_own(tmp_path: Path) -> None:
    main, linked, forged = tmp_path / "main", tmp_path / "linked", tmp_path / "forged"
    inside = main / ".git" / "worktrees" / "linked"
    for folder in (inside, linked, forged):
        folder.mkdir(parents=True)
    (inside / "commondir").write_text("../..\n")
    (inside / "gitdir").write_text(f"{linked}/.git\n")
    for folder in (linked, forged):
        (folder / ".git").write_text(f"gitdir: {inside}\n")
    assert find_project(linked) == main.resolve()
    assert find_project(forged) == forged.resolve()
