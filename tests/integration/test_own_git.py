"""The project's own git calls, in repositories that try to make git run something.

Tests of swarm/workspace/git.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swarm.workspace.git import run_git
from tests.needs import need_program

IDENTITY = {"user.name": "a", "user.email": "a@b"}


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True, capture_output=True
    )


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A repository whose settings run `evil` wherever git can be made to."""
    need_program("git")
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", ".")
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\ncat\n")
    evil.chmod(0o755)
    (folder / "file").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    (folder / "sub").mkdir()
    git(folder / "sub", "init", "-q", ".")
    git(folder / "sub", "commit", "-q", "--allow-empty", "-m", "one")
    git(folder, "add", "sub")
    git(folder, "commit", "-q", "-m", "two")
    git(folder / "sub", "config", "core.fsmonitor", str(evil))
    (folder / "sub" / "new").write_text("")
    (folder / ".gitattributes").write_text("* filter=x diff=y merge=z\nother filter=a=b\n")
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "diff.external",
        "credential.helper",
        "gpg.program",
    ):
        git(folder, "config", name, str(evil))
    for name in (
        "filter.x.clean",
        "filter.x.smudge",
        "filter.a=b.clean",
        "diff.y.command",
        "diff.y.textconv",
        "merge.z.driver",
    ):
        git(folder, "config", name, str(evil))
    git(folder, "config", "commit.gpgSign", "true")
    git(folder, "config", "filter.x.required", "true")
    git(folder, "config", "include.path", "../more")
    (folder / "more").write_text(f'[filter "x"]\n\tprocess = {evil}\n')
    for hook in ("pre-commit", "post-checkout", "post-commit", "post-index-change", "reference-transaction"):
        (folder / ".git" / "hooks" / hook).write_text(evil.read_text())
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    (tmp_path / "ran").unlink(missing_ok=True)
    return folder


def test_the_projects_own_git_runs_nothing_that_a_repository_names(trap: Path) -> None:
    (trap / "file").write_text("two\n")
    (trap / "other").write_text("x\n")
    for arguments in (
        ["status", "--short"],
        ["diff"],
        ["add", "--all", "--", "file", "other", ".gitattributes"],
        ["commit", "-q", "-m", "three"],
        ["log", "-p", "-1"],
        ["show", "HEAD"],
        ["checkout", "-q", "-b", "side"],
        ["checkout", "-q", "HEAD~1", "--", "file"],
        ["fetch", "-q", "."],
    ):
        ran = run_git(trap, arguments, settings=IDENTITY)
        assert ran.returncode == 0 or arguments[0] == "fetch", ran
    assert not (trap.parent / "ran").exists()
    assert run_git(trap, ["log", "--oneline"]).stdout.count(b"\n") == 3


def test_the_trap_springs_for_others(trap: Path) -> None:
    subprocess.run(["git", "status"], cwd=trap, capture_output=True, check=False)
    assert (trap.parent / "ran").exists()


def test_a_callers_variables_lead_nowhere_else(trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert run_git(trap, ["rev-parse", "HEAD"]).returncode == 0
