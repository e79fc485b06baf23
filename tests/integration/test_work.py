"""What a job on a copy did: shown, taken over into the person's folder, made a branch.

Tests of swarm/cli/work.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swarm import Job
from swarm.core.errors import ConfigurationError, NoWork
from tests.fleet import Fleet

SCENARIO = """
name: alone
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "sed -i s/one/ONE/ text; rm gone; echo new > added; chmod +x run; echo x > built/x"}}]}
  - reply: {text: done}
"""


def git(folder: Path, *arguments: str) -> str:
    named = ["git", "-c", "user.name=p", "-c", "user.email=p@x", *arguments]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def ended(at_work: Fleet) -> Job:
    """A job that has worked on a copy of a repository with a change that was not committed."""
    folder = at_work.workspace
    (folder / "text").write_text("one\ntwo\nthree\nfour\n")
    (folder / "gone").write_text("gone\n")
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / ".gitignore").write_text("built/*\n!built/keep\n*.log\n")
    (folder / "built").mkdir()
    (folder / "built/keep").write_text("")
    (folder / "held.log").write_text("ignored, and held all the same\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "first")
    (folder / "text").write_text("one\ntwo\nthree\nfour\nfive\n")
    server = at_work.rehearse(SCENARIO)
    job = at_work.swarm.submit(
        "go", agent="general-purpose", workspace=folder, base_url=server.url, isolation="worktree"
    )
    view = job.wait(60)
    assert (view.state, view.workspace) == ("completed", str(folder))
    assert (folder / "text").read_text().startswith("one") and (folder / "gone").exists()
    return job


def test_it_is_shown_and_merged_into_a_folder_that_has_changed(ended: Job, at_work: Fleet) -> None:
    folder, work = at_work.workspace, ended.work()
    assert work.changes == {"text": "M", "gone": "D", "added": "A", "run": "M"}
    assert b"-one\n+ONE\n" in work.diff() and b"4 files changed" in work.diff(stat=True)
    assert work.is_folder_as_it_was()
    (folder / "text").write_text("one\ntwo\nthree\nFOUR\nfive\n")
    (folder / "mine").write_text("mine\n")
    assert not work.is_folder_as_it_was()
    assert set(work.apply(dry_run=True).changed) == {"text", "gone", "added", "run"} and (folder / "gone").exists()
    assert set(work.apply().changed) == {"text", "gone", "added", "run"}
    assert (folder / "text").read_text() == "ONE\ntwo\nthree\nFOUR\nfive\n" and (folder / "mine").exists()
    assert (folder / "run").stat().st_mode & 0o100 and not (folder / "gone").exists()
    assert work.apply().changed == {}


@pytest.mark.parametrize(("strategy", "line"), [("ours", "mine"), ("theirs", "ONE")])
def test_what_conflicts_changes_nothing_until_it_is_said_how(
    ended: Job, at_work: Fleet, strategy: str, line: str
) -> None:
    folder, work = at_work.workspace, ended.work()
    (folder / "text").write_text("mine\ntwo\nthree\nfour\nfive\n")
    applied = work.apply()
    assert "text: both changed it\n<<<<<<< yours/" in applied.conflicts and not applied.changed
    assert (folder / "gone").exists() and not (folder / "added").exists()
    work.apply(strategy)  # type: ignore[arg-type]
    assert (folder / "text").read_text().startswith(line) and (folder / "added").exists()


def test_what_lies_in_the_way_is_not_overwritten(ended: Job, at_work: Fleet) -> None:
    (at_work.workspace / ".git/info/exclude").write_text("added\n")
    (at_work.workspace / ".gitignore").write_text("added\n")
    (at_work.workspace / "added").write_text("mine, and ignored\n")
    applied = ended.work().apply()
    assert applied.in_the_way == ("added",) and (at_work.workspace / "added").read_text() == "mine, and ignored\n"
    assert (at_work.workspace / "gone").exists()


def test_as_a_branch_it_touches_neither_checkout_nor_index_nor_hooks(ended: Job, at_work: Fleet) -> None:
    folder = at_work.workspace
    hook = folder / ".git/hooks/reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {folder}/hooked\n")
    hook.chmod(0o755)
    before = (folder / ".git/index").read_bytes(), git(folder, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    name = ended.work().make_branch()
    assert name == f"swarm/{ended.id}" and ended.work().make_branch() == name
    assert ((folder / ".git/index").read_bytes(), git(folder, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")) == before
    assert git(folder, "log", "--format=%s", name).splitlines() == [
        "go",
        f"Not committed when {ended.id} began",
        "first",
    ]
    assert git(folder, "show", f"{name}:text") == "ONE\ntwo\nthree\nfour\nfive\n"
    changed = git(folder, "diff", "--name-only", f"{name}~", name).split()
    assert changed == ["added", "gone", "run", "text"] and "held.log" in git(folder, "ls-tree", "--name-only", name)
    assert not (folder / "hooked").exists() and not (folder / "added").exists()
    git(folder, "checkout", "-qf", name)
    git(folder, "-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", "mine")
    (folder / "more").write_text("x")
    git(folder, "add", "-A")
    git(folder, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "more")
    with pytest.raises(ConfigurationError, match="with different contents"):
        ended.work().make_branch()


def test_who_works_in_the_folder_itself_has_no_work_of_its_own(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=0 fanout=0 steps=1", at_work.rehearse())
    job.wait(30)
    with pytest.raises(NoWork, match="worked directly in"):
        job.work()
