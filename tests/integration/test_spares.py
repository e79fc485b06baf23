"""Checkouts that are ready before they are needed: whatever they hold, what an agent gets is what its commit says.

Tests of swarm/workspace/leftovers.py, swarm/workspace/repository.py, swarm/workspace/spares.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.workspace import leftovers
from swarm.workspace.checkouts import open_checkout
from swarm.workspace.repository import Repository
from swarm.workspace.spares import FOLDER, become, make_spares
from tests.integration.test_repository import listing, snap
from tests.needs import need_program

JOB, NAME = "job-1", "app"


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    need_program("git")
    return tmp_path / "checkouts"


def open_agent(checkouts: Path, agent: str, job: str = JOB) -> Repository:
    return open_checkout(checkouts, job, agent, checkouts / agent / NAME)


def inode(repository: Repository, path: str) -> int:
    return (repository.tree / path).stat().st_ino


def spares(checkouts: Path) -> list[Path]:
    return sorted((checkouts / FOLDER).glob(f"{NAME}~*"))


def write(own: Repository, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = own.tree / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, newline="")


def test_the_next_agent_begins_with_a_spare_and_has_exactly_what_its_commit_holds(checkouts: Path) -> None:
    own = open_agent(checkouts, "agent-1")
    first = {".gitattributes": "*.txt eol=crlf\n", "a.txt": "one\n", "d/b": "same\n", "secret": "x\n", "gone": "y\n"}
    write(own, first)
    before = snap(own)
    write(own, {"a.txt": "two\n", ".gitignore": "secret\n"})
    (own.tree / "gone").unlink()
    (own.tree / "secret").unlink()
    after = snap(own, before)
    second = open_agent(checkouts, "agent-2")
    become(checkouts, second, before, "boot")
    assert make_spares(checkouts) == [NAME, NAME] and make_spares(checkouts) == []
    kept = {spare: (spare / "tree/d/b").stat().st_ino for spare in spares(checkouts)}
    third = open_agent(checkouts, "agent-3")
    become(checkouts, third, after, "boot")
    assert inode(third, "d/b") == kept[spares_taken(checkouts, kept)]
    assert listing(third.tree) == listing(own.tree)
    assert third.tip() == after and third.snapshot(after, {}).commit is None
    # One was taken, so one more is wanted.
    assert make_spares(checkouts) == [NAME]
    fourth = open_agent(checkouts, "agent-4")
    become(checkouts, fourth, before, "boot")
    assert listing(fourth.tree) == listing(second.tree) and (fourth.tree / "secret").exists()


def spares_taken(checkouts: Path, before: dict[Path, int]) -> Path:
    [taken] = before.keys() - set(spares(checkouts))
    return taken


def test_a_spare_of_another_project_or_from_before_a_power_cut_is_not_used_and_none_stays_for_ever(
    checkouts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = open_agent(checkouts, "agent-1")
    write(own, {"a": "1\n", "b": "2\n"})
    commit = snap(own)
    become(checkouts, open_agent(checkouts, "agent-2"), commit, "boot")
    make_spares(checkouts)
    kept = [(spare / "tree/a").stat().st_ino for spare in spares(checkouts)]
    other = open_agent(checkouts, "agent-3", "job-2")
    write(other, {"c": "1\n", "d": "2\n"})
    unlike = open_agent(checkouts, "agent-4", "job-2")
    become(checkouts, unlike, snap(other), "boot")
    assert listing(unlike.tree) == listing(other.tree) and len(spares(checkouts)) == 2
    later = open_agent(checkouts, "agent-5")
    become(checkouts, later, commit, "another boot")
    assert inode(later, "a") not in kept and listing(later.tree) == listing(own.tree)
    leftovers.remove_leftovers(checkouts)
    assert len(spares(checkouts)) == 2
    monkeypatch.setattr(leftovers, "FORGOTTEN_SECONDS", -1)
    leftovers.remove_leftovers(checkouts)
    assert not (checkouts / FOLDER).exists() and list(checkouts.glob(".*")) == []


def test_who_dies_while_taking_a_spare_leaves_what_can_be_gone_on_from(checkouts: Path) -> None:
    own = open_agent(checkouts, "agent-1")
    write(own, {"a": "1\n", "d/b": "2\n"})
    commit = snap(own)
    become(checkouts, open_agent(checkouts, "agent-2"), commit, "boot")
    make_spares(checkouts)
    third = open_agent(checkouts, "agent-3")
    (spares(checkouts)[0] / "git/index").rename(third.git_dir / "index")
    become(checkouts, third, commit, "boot")
    assert listing(third.tree) == listing(own.tree)
    broken = spares(checkouts)[-1]
    (broken / "git/index").write_bytes(b"DIRC nonsense")
    fourth = open_agent(checkouts, "agent-4")
    (spares(checkouts)[0] / "about").unlink(missing_ok=True)
    become(checkouts, fourth, commit, "boot")
    assert listing(fourth.tree) == listing(own.tree)
