"""Histories on the way to other hosts: whole, shallow or refused by the hub, and fetched once per host.

Tests of swarm/workspace/histories.py, swarm/workspace/upload.py.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from swarm import Settings
from swarm.workspace.checkouts import job_url, make_in_folder, open_checkout
from swarm.workspace.git_command import form_of
from swarm.workspace.histories import fetch_with_history, remove_histories
from swarm.workspace.repository import Repository
from swarm.workspace.upload import Upload, send_folder
from tests.needs import need_program


def git(folder: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=p", "-c", "user.email=p@x", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository with a history of files that do not compress."""
    need_program("git")
    top = tmp_path / "w"
    top.mkdir()
    git(top, "init", "-q", "-b", "main", f"--object-format={getattr(request, 'param', 'sha1')}")
    for number in range(4):
        (top / "a").write_bytes(os.urandom(100_000))
        git(top, "add", "-A")
        git(top, "commit", "-qm", f"number {number}")
    git(top, "tag", "-a", "v1", "-m", "one")
    return top


def send(folder: Path, job: str) -> Upload:
    top = folder.parent
    return send_folder(Settings(state_dir=top / "state"), folder, str(top / "hub"), job, f"agent-{job}")


def bring(folder: Path, job: str, commit: str) -> Repository:
    """What another host makes of the job's files."""
    top, agent = folder.parent, f"agent-{job}"
    form = form_of(commit)
    repository = open_checkout(top / "checkouts", job, agent, top / "checkouts" / agent / folder.name, form)
    fetch_with_history(top / "checkouts", repository, job_url(str(top / "hub"), job, form), commit, None)
    repository.become(commit)
    return repository


@pytest.mark.parametrize("folder", ["sha1", "sha256"], indirect=True)
def test_a_host_fetches_a_history_once_and_each_copy_has_all_of_it(folder: Path) -> None:
    first = bring(folder, "job-1", send(folder, "job-1").commit)
    (folder / "b").write_text("b")
    git(folder, "add", "b")
    git(folder, "commit", "-qm", "later")
    (folder / "a").write_text("dirty")
    second = bring(folder, "job-2", send(folder, "job-2").commit)
    for words in (
        ["log", "-p"],
        ["blame", "b"],
        ["describe"],
        ["status", "--short", "--branch"],
        ["diff"],
        ["show", "HEAD~2"],
    ):
        assert git(second.tree, *words) == git(folder, *words)
    assert git(first.tree, "describe") == "v1\n"
    new = [
        one for one in (second.git_dir / "objects").resolve().rglob("*") if one.is_file() and one.stat().st_nlink == 1
    ]
    assert sum(one.stat().st_size for one in new) < 20_000, "all else is the other job's"
    remove_histories(folder.parent / "checkouts", every=True)
    assert git(second.tree, "fsck", "--no-dangling") == ""


def test_a_shallow_history_stays_shallow_and_one_that_is_refused_does_not_stop_a_job(
    folder: Path, tmp_path: Path
) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{folder}", str(shallow))
    sent = send(shallow, "job-1")
    assert sent.warnings == []
    assert git(bring(shallow, "job-1", sent.commit).tree, "log") == git(shallow, "log")
    make_in_folder(job_url(str(tmp_path / "hub"), "job-2", "sha1"), "sha1")
    [there] = tmp_path.glob("hub/**/job-2.git")
    git(there, "config", "receive.shallowUpdate", "false")
    sent = send(shallow, "job-2")
    assert [warning for warning in sent.warnings if "the history of" in warning]
    assert git(bring(shallow, "job-2", sent.commit).tree, "log", "--format=%s") == "The files at the beginning\n"
