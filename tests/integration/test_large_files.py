"""Large files of a workspace, in parts: on to other hosts, through merges, and back into the person's folder.

Tests of swarm/workspace/large.py, swarm/workspace/parts.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from swarm import Settings
from swarm.core.errors import GitFailed
from swarm.workspace import changes, large, parts
from swarm.workspace.checkouts import job_url, open_checkout
from swarm.workspace.git_command import call_git
from swarm.workspace.histories import fetch_with_history
from swarm.workspace.large import find_store
from swarm.workspace.parts import find_missing, push_parts
from swarm.workspace.repository import Repository
from swarm.workspace.upload import send_folder
from tests.git_world import World, listing, sh
from tests.needs import need_program

SIZE = 70_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are large from 64 kB on, in chunks of 4 kB."""
    need_program("git")
    monkeypatch.setattr(changes, "BIG_BYTES", 1 << 16)
    monkeypatch.setattr(changes, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(large, "ALL_BYTES", 2_000_000)
    monkeypatch.setattr(large, "CHUNK_BYTES", 1 << 12)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with a large file in its history, and one beside it."""
    top = tmp_path / "w"
    top.mkdir()
    (top / "held").write_bytes(os.urandom(SIZE))
    sh(top, "git init -q -b main; echo t > t; git add -A; git commit -qm first")
    (top / "free").write_bytes(os.urandom(SIZE))
    (top / "free").chmod(0o755)
    return top


def bring(folder: Path, place: str, commit: str) -> Repository:
    """What a host makes of the job's files."""
    top, checkouts = folder.parent, folder.parent / place
    repository = open_checkout(checkouts, "job-1", "agent-1", checkouts / "agent-1/w")
    fetch_with_history(checkouts, repository, job_url(str(top / "hub"), "job-1", "sha1"), commit, None)
    repository.become(commit)
    return repository


def test_large_files_follow_their_agent_and_only_new_chunks_are_sent(folder: Path, tmp_path: Path) -> None:
    hub = str(tmp_path / "hub")
    sent = send_folder(Settings(state_dir=tmp_path / "state"), folder, hub, "job-1", "agent-1")
    assert sent.warnings == []
    first = bring(folder, "first", sent.commit)
    assert listing(first.tree) == listing(folder)
    assert sh(first.tree, "git status --short") == "?? free\n"
    assert first.snapshot(sent.commit, {}).commit is None

    with (first.tree / "free").open("r+b") as file:
        file.seek(SIZE - 10)
        file.write(b"changed")
    (first.tree / "new").write_bytes(b"n" * SIZE)
    (first.tree / "held").unlink()
    took = first.snapshot(sent.commit, {})
    assert took.commit is not None and took.left_out == []
    blobs = _count_objects(tmp_path / "hub/jobs/job-1.git")
    first.push(job_url(hub, "job-1", "sha1"), took.commit, "refs/swarm/agent-1/1-1")
    # Of `free` a chunk, of `new` two; their pointers, the commit and its tree.
    assert _count_objects(tmp_path / "hub/jobs/job-1.git") - blobs == 7
    second = bring(folder, "second", took.commit)
    assert listing(second.tree) == listing(first.tree)

    # The bit to run a file alone, there and back.
    (second.tree / "new").chmod(0o755)
    run = second.snapshot(took.commit, {}).commit or ""
    assert second.changed_paths(took.commit, run) == {"new": "M"}
    second.become(took.commit)
    assert listing(second.tree) == listing(first.tree)
    second.become(run)
    assert os.access(second.tree / "new", os.X_OK) and (second.tree / "new").read_bytes() == b"n" * SIZE

    # Undone on the same host, and to a state that has them still.
    (second.tree / "new").write_bytes(b"m" * SIZE)
    (second.tree / "free").write_text("small")
    second.become(took.commit)
    assert listing(second.tree) == listing(first.tree)
    second.fetch(job_url(hub, "job-1", "sha1"), sent.commit)
    second.become(sent.commit)
    assert listing(second.tree) == listing(folder)
    (second.tree / "free").write_text("small")
    assert second.changed_paths(sent.commit, second.snapshot(sent.commit, {}).commit or "") == {"free": "M"}


def _count_objects(git_dir: Path) -> int:
    listed = subprocess.run(
        ["git", "cat-file", "--batch-check", "--batch-all-objects"], cwd=git_dir, capture_output=True, check=True
    )
    return listed.stdout.count(b"\n")


def test_a_broken_connection_costs_a_part_and_lost_marks_cost_nothing(folder: Path, tmp_path: Path) -> None:
    send_folder(Settings(state_dir=tmp_path / "state"), folder, str(tmp_path / "hub"), "job-1", "agent-1")
    [git_dir] = tmp_path.glob("state/snapshots/*.git")
    repository = Repository(git_dir, folder)
    (folder / "more").write_bytes(os.urandom(SIZE))
    took = repository.snapshot(repository.tip(), {})
    assert took.commit is not None
    url, there = job_url(str(tmp_path / "hub"), "job-1", "sha1"), tmp_path / "hub/jobs/job-1.git"
    wanted = repository.list_parts(took.commit)
    missing = find_missing(there, wanted)
    assert len(missing) == 18
    push_parts(git_dir, url, missing[:5], None, 60)
    with pytest.raises(GitFailed):
        push_parts(git_dir, f"{url}/nowhere", missing, None, 60)
    (git_dir / "swarm-parts-sent").unlink()
    repository.push(url, took.commit, "refs/swarm/agent-1/1-1")
    assert find_missing(there, wanted) == []
    # A host whose index, notes or objects are gone makes them again.
    other = bring(folder, "other", took.commit)
    (other.git_dir / "swarm-large").unlink()
    (other.git_dir / "index").unlink()
    (other.tree / "more").write_bytes(b"x" * SIZE)
    other.become(took.commit)
    assert listing(other.tree) == listing(folder)
    (other.git_dir / "swarm-large").unlink()
    (other.git_dir / "index").unlink()
    (other.git_dir / "swarm-tip").unlink()
    assert other.tree_of(other.snapshot(took.commit, {}).commit or took.commit) == other.tree_of(took.commit)
    assert find_store(other.git_dir) == tmp_path / "other/job-1.git" and parts.CHUNK_BYTES


def test_large_files_of_a_job_come_home_and_conflicts_of_them_are_told(folder: Path, tmp_path: Path) -> None:
    before = listing(folder)
    world = World(tmp_path, folder)
    assert listing(world.copy) == before
    work = world.work(f"head -c {SIZE} /dev/urandom > made; echo more >> held; mv free moved; chmod -x moved")
    assert set(work.apply(dry_run=True).changed) == {"made", "held", "free", "moved"}
    assert work.apply().changed == {"made": "A", "held": "M", "free": "D", "moved": "A"}
    assert listing(folder) == listing(world.copy)
    work.undo()
    assert listing(folder) == before
    name = work.make_branch()
    assert (
        sh(folder, f"git show {name}:held | cmp - {world.copy}/held; git show {name}:made | cmp - {world.copy}/made")
        == ""
    )
    (folder / "held").write_bytes(b"mine" * SIZE)
    mine = listing(folder)
    applied = work.apply()
    assert "held: both changed it (it is binary)" in applied.conflicts and listing(folder) == mine
    work.apply("merge")
    assert listing(folder) == mine
    work.apply("theirs")
    assert listing(folder) == listing(world.copy)


def test_what_is_larger_still_is_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    (folder / "huge").write_bytes(b"\0" * ((1 << 20) + 1))
    # Two of three fit beside those that are there.
    for number in range(3):
        (folder / f"big{number}").write_bytes(b"\0" * (900_000 + number))
    sent = send_folder(Settings(state_dir=tmp_path / "state"), folder, str(tmp_path / "hub"), "job-1", "agent-1")
    assert "huge (it has 1,048,577 bytes, more than 1 MiB)" in sent.warnings[0]
    assert "big2 (files over 32 MiB have more than 1 MiB together)" in sent.warnings[0]
    assert {path.name for path in bring(folder, "first", sent.commit).tree.iterdir()} == {
        *("held", "free", "t", "big0", "big1", ".git")
    }


def test_a_change_is_found_again_where_the_index_could_not_be_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = send_folder(Settings(state_dir=tmp_path / "state"), folder, str(tmp_path / "hub"), "job-1", "agent-1")
    first = bring(folder, "first", sent.commit)
    (first.tree / "free").write_bytes(os.urandom(SIZE))
    with monkeypatch.context() as broken:
        broken.setattr(large, "call_git", _fail_at("--index-info"))
        with pytest.raises(GitFailed):
            first.snapshot(sent.commit, {})
    assert first.snapshot(sent.commit, {}).commit is not None


def test_files_are_written_again_where_that_was_cut_off(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = send_folder(Settings(state_dir=tmp_path / "state"), folder, str(tmp_path / "hub"), "job-1", "agent-1")
    with monkeypatch.context() as broken:
        broken.setattr(large, "call_git", _fail_at("--skip-worktree"))
        with pytest.raises(GitFailed):
            bring(folder, "first", sent.commit)
    assert listing(bring(folder, "first", sent.commit).tree) == listing(folder)


def _fail_at(option: str) -> Callable[..., Any]:
    def call(git_dir: Path, arguments: Sequence[str], **given: Any) -> Any:
        if option in arguments:
            raise GitFailed("cut off", "failed")
        return call_git(git_dir, arguments, **given)

    return call
