"""Workspaces as commits in a git folder of the runtime's own.

Tests of swarm/workspace/changes.py, swarm/workspace/checkouts.py, swarm/workspace/git_command.py, swarm/workspace/merge.py,
swarm/workspace/repository.py, swarm/workspace/workspace_history.py.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from swarm.core.errors import GitFailed
from swarm.workspace import changes
from swarm.workspace.checkouts import open_checkout
from swarm.workspace.git_command import call_git
from swarm.workspace.merge import describe_conflicts, merge_commits
from swarm.workspace.repository import Repository
from tests.needs import need_program


@pytest.fixture
def own(tmp_path: Path) -> Repository:
    need_program("git")
    return Repository.make(tmp_path / "own.git", tmp_path / "w")


@pytest.fixture
def hub(tmp_path: Path) -> str:
    folder = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    return str(folder)


def elsewhere(own: Repository, hub: str, commit: str) -> Path:
    """What another host makes of the commit."""
    own.push(hub, commit, "refs/swarm/x/1-1")
    home = own.git_dir.parent / "elsewhere"
    other = Repository.make(home / "own.git", home / "w")
    assert other.fetch(hub, "refs/swarm/x/1-1") == commit
    other.become(commit)
    return other.tree


def listing(tree: Path) -> dict[bytes, tuple[int, bytes]]:
    """Every file below a folder but Git's own: its kind with the bit to run it, and its content."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(tree)):
        folders[:] = [name for name in folders if name != b".git" and not os.path.islink(os.path.join(folder, name))]
        for name in {*files, *(one for one in os.listdir(folder) if os.path.islink(os.path.join(folder, one)))}:
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            content = os.readlink(full) if stat.S_ISLNK(mode) else Path(os.fsdecode(full)).read_bytes()
            found[os.path.relpath(full, os.fsencode(tree))] = (stat.S_IFMT(mode) | mode & 0o100, content)
    return found


def snap(own: Repository, previous: str | None = None) -> str:
    commit = own.snapshot(previous, {}).commit
    assert commit is not None
    return commit


# -- what is carried ---------------------------------------------------------------------------------------


def test_every_file_is_the_same_elsewhere_whatever_its_name_and_content(own: Repository, hub: str) -> None:
    tree = own.tree
    names = [b"plain", b"new\nline", b"\xff\xfe", b"-rf", b"sp ace", "ü".encode(), b":(top)x", b"*", b"A", b"a"]
    for number, name in enumerate(names):
        Path(os.fsdecode(os.fsencode(tree) + b"/" + name)).write_bytes(b"%d\r\n\n\0\xff" % number)
    (tree / "deep/er").mkdir(parents=True)
    (tree / "deep/er/run").write_text("#!/bin/sh\n")
    (tree / "deep/er/run").chmod(0o755)
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "nowhere").symlink_to("not there")
    (tree / "folder").symlink_to("deep")
    (tree / "crlf.txt").write_bytes(b"one\r\ntwo\n$Id$\n")
    (tree / ".gitattributes").write_text("* text=auto eol=crlf ident\n*.txt working-tree-encoding=UTF-16\n")
    before = listing(tree)
    assert listing(elsewhere(own, hub, snap(own))) == before


def test_what_is_ignored_stays_behind_unless_it_is_held_already(own: Repository, hub: str) -> None:
    (own.tree / ".gitignore").write_text("build/\n")
    (own.tree / ".worktreeinclude").write_text("build/kept\n")
    (own.tree / "build").mkdir()
    (own.tree / "build/kept").write_text("kept")
    (own.tree / "build/made").write_text("made")
    first = own.snapshot(None, {}).commit
    assert first is not None
    (own.tree / "build/kept").write_text("changed")
    there = elsewhere(own, hub, snap(own, first))
    assert sorted(os.listdir(there / "build")) == ["kept"]
    assert (there / "build/kept").read_text() == "changed"


def test_what_is_left_out_is_named_with_its_reason(own: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_BYTES", 1 << 20)
    tree = own.tree
    (tree / "small").write_text("x")
    (tree / "big").write_bytes(b"x" * (1 << 20) + b"x")
    (tree / "git~1").write_text("x")
    (tree / "sub/.Git").mkdir(parents=True)
    (tree / "sub/.Git/config").write_text("x")
    os.mkfifo(tree / "pipe")
    (tree / ".gitmodules").symlink_to("/etc/passwd")
    for name in ("nested", "unborn"):
        subprocess.run(["git", "init", "-q", str(tree / name)], check=True)
    (tree / "nested/file").write_text("x")
    took = own.snapshot(None, {"turn": 1})
    assert {one.path: one.reason.split()[0] for one in took.left_out} == {
        "big": "it",
        "git~1": "Git",
        ".gitmodules": "Git",
        "unborn": "it",
        "sub/.Git/config": "Git",
    }
    assert took.commit is not None
    assert own.about(took.commit)["turn"] == 1
    assert [path for path, _ in own.about(took.commit)["left_out"]] == [one.path for one in took.left_out]
    (tree / "small").write_text("half done")
    own.become(took.commit)
    assert (tree / "small").read_text() == "x"
    assert (tree / "big").exists() and (tree / "nested/file").exists() and (tree / "pipe").exists()


def test_a_file_that_outgrows_the_limit_is_left_out_and_stays_here(
    own: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_BYTES", 1 << 20)
    (own.tree / "log").write_text("x")
    first = snap(own)
    (own.tree / "log").write_bytes(b"x" * (2 << 20))
    second = own.snapshot(first, {})
    assert second.commit is not None and [one.path for one in second.left_out] == ["log"]
    assert own.changed_paths(first, second.commit) == {"log": "D"}
    own.become(second.commit)
    assert (own.tree / "log").stat().st_size == 2 << 20
    own.become(first)
    assert (own.tree / "log").read_text() == "x"


# -- snapshots ---------------------------------------------------------------------------------------------


def test_nothing_changed_makes_no_commit(own: Repository) -> None:
    (own.tree / "a").write_text("a")
    first = snap(own)
    assert own.snapshot(first, {}).commit is None
    (own.tree / "a").write_text("b")
    (own.tree / "a").write_text("a")
    assert own.snapshot(first, {}).commit is None


def test_an_empty_folder_has_a_snapshot(own: Repository, hub: str) -> None:
    first = snap(own)
    assert listing(elsewhere(own, hub, first)) == {}
    (own.tree / "a").write_text("a")
    second = snap(own, first)
    (own.tree / "a").unlink()
    assert own.changed_paths(second, snap(own, second)) == {"a": "D"}


def test_files_folders_and_links_turn_into_each_other(own: Repository, hub: str, tmp_path: Path) -> None:
    tree = own.tree
    for name in ("folder", "linked"):
        (tree / name).mkdir()
        (tree / name / "f").write_text("f")
    (tree / "file").write_text("x")
    outside = tmp_path / "outside"
    shutil.copytree(tree / "linked", outside)
    first = snap(own)
    shutil.rmtree(tree / "folder")
    (tree / "folder").write_text("a file now")
    (tree / "file").unlink()
    (tree / "file").mkdir()
    (tree / "file/deep").write_text("x")
    shutil.rmtree(tree / "linked")
    (tree / "linked").symlink_to(outside)
    second = snap(own, first)
    now = listing(tree)
    assert listing(elsewhere(own, hub, second)) == now
    own.become(first)
    assert sorted(listing(tree)) == [b"file", b"folder/f", b"linked/f"]
    own.become(second)
    assert listing(tree) == now
    assert (outside / "f").read_text() == "f"


def test_whoever_died_between_index_and_commit_is_made_up_for(own: Repository) -> None:
    (own.tree / "a").write_text("a")
    first = snap(own)
    (own.tree / "a").write_text("b")
    own._take_in(os.open(own.git_dir, os.O_RDONLY))
    second = snap(own, first)
    assert own.read_file(second, "a") == b"b"


@pytest.mark.parametrize("harm", ["lock", "lost", "corrupt"])
def test_a_broken_or_locked_index_costs_only_time(own: Repository, harm: str) -> None:
    (own.tree / ".gitignore").write_text("kept\n")
    (own.tree / ".worktreeinclude").write_text("kept\n")
    (own.tree / "kept").write_text("held although it is ignored")
    first = own.snapshot(None, {}).commit
    assert first is not None
    index = own.git_dir / "index"
    match harm:
        case "lock":
            (own.git_dir / "index.lock").write_text("")
        case "lost":
            index.unlink()
        case "corrupt":
            index.write_bytes(index.read_bytes()[:40])
    assert own.snapshot(first, {}).commit is None
    (own.tree / "kept").write_text("other")
    assert own.read_file(snap(own, first), "kept") == b"other"
    if harm == "corrupt":
        index.write_bytes(b"")
        index.write_bytes(b"no index at all, but long enough to be one")
    own.become(first)
    assert (own.tree / "kept").read_text() == "held although it is ignored"


# -- going back --------------------------------------------------------------------------------------------


def test_a_half_done_turn_is_rolled_back_and_what_is_ignored_stays(own: Repository) -> None:
    tree = own.tree
    (tree / ".gitignore").write_text("node_modules/\n")
    (tree / "a").write_text("a")
    (tree / "gone").write_text("gone")
    (tree / "empty").mkdir()
    first = snap(own)
    (tree / "node_modules").mkdir()
    (tree / "node_modules/x").write_text("x")
    (tree / "a").write_text("half")
    (tree / "gone").unlink()
    (tree / "new/deep").mkdir(parents=True)
    (tree / "new/deep/file").write_text("half")
    (tree / "hidden").mkdir()
    (tree / "hidden/.gitignore").write_text("other\n")
    (tree / "hidden/other").write_text("half")
    own.become(first)
    assert sorted(os.listdir(tree)) == [".gitignore", "a", "empty", "gone", "node_modules"]
    assert (tree / "a").read_text() == "a" and (tree / "node_modules/x").exists()
    assert own.snapshot(first, {}).commit is None


def test_where_all_is_so_already_nothing_is_written(own: Repository) -> None:
    (own.tree / "a").write_text("a")
    first = snap(own)
    written = (own.git_dir / "index").stat().st_mtime_ns
    own.become(first)
    assert (own.git_dir / "index").stat().st_mtime_ns == written


def test_a_file_is_never_removed_through_a_link(own: Repository, tmp_path: Path) -> None:
    first = snap(own)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("kept")
    (own.tree / "d").symlink_to(outside)
    own.become(first)
    assert (outside / "f").exists() and not (own.tree / "d").is_symlink()


# -- commits and the hub -----------------------------------------------------------------------------------


def test_a_merge_tells_its_conflicts_and_touches_no_file(own: Repository) -> None:
    (own.tree / "both").write_text("one\n")
    base = snap(own)
    (own.tree / "both").write_text("ours\n")
    (own.tree / "mine").write_text("x")
    ours = snap(own, base)
    own.become(base)
    (own.tree / "both").write_text("theirs\n")
    theirs = snap(own, base)
    own.become(ours)
    merge = merge_commits(own.git_dir, ours, theirs)
    assert [one.path for one in merge.conflicts] == ["both"]
    assert "both" in describe_conflicts(own.git_dir, merge)
    assert b"||||||| " in own.read_file(merge.tree, "both")
    assert (own.tree / "both").read_text() == "ours\n"
    own.become(base)
    (own.tree / "third").write_text("3")
    clean = merge_commits(own.git_dir, ours, snap(own, base))
    assert clean.conflicts == ()
    merged = own.commit_tree(clean.tree, [ours, base], {"merged": True})
    own.become(merged)
    assert sorted(os.listdir(own.tree)) == ["both", "mine", "third"]
    assert b"third" in own.diff(ours, merged) and b"1 file changed" in own.diff(ours, merged, stat=True)


def test_a_ref_is_made_once_and_never_changed(own: Repository, hub: str) -> None:
    first = snap(own)
    own.push(hub, first, "refs/swarm/a/1-2")
    own.push(hub, first, "refs/swarm/a/1-2")
    (own.tree / "a").write_text("a")
    with pytest.raises(GitFailed) as stale:
        own.push(hub, snap(own, first), "refs/swarm/a/1-2")
    assert stale.value.trouble == "refused"
    assert own.find(hub, "refs/swarm/a/1-2") == first


def test_what_is_missing_and_what_is_away_are_told_apart(own: Repository, hub: str) -> None:
    own.push(hub, snap(own), "refs/swarm/a/1-2")
    for wanted in ("refs/swarm/a/9-9", "0" * 39 + "1"):
        with pytest.raises(GitFailed) as missing:
            own.fetch(hub, wanted)
        assert missing.value.trouble == "missing"
    with pytest.raises(GitFailed) as away:
        own.fetch("http://name:secret@127.0.0.1:9/x.git", "refs/swarm/a/1-2", token="also secret")
    assert away.value.trouble == "away" and "secret" not in str(away.value)


def test_a_git_folder_inside_of_its_workspace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="own snapshots"):
        Repository.make(tmp_path / "w/x.git", tmp_path / "w")


def test_what_a_record_names_is_no_option_of_git_and_no_folder_but_the_agents_own(
    own: Repository, hub: str, tmp_path: Path
) -> None:
    first = snap(own)
    own.push(hub, first, "refs/swarm/a/1-1")
    for act in (own.become, lambda name: own.fetch(hub, name), lambda name: own.snapshot(name, {})):
        with pytest.raises(GitFailed, match="no commit's id"):
            act(f"--index-output={tmp_path}/written")
    assert not (tmp_path / "written").exists()
    checkouts = tmp_path / "checkouts"
    for tree in ("agent-1/..", "agent-2/w", "agent-1/../agent-2", "agent-1/w/deeper"):
        with pytest.raises(GitFailed, match="not the workspace of"):
            open_checkout(checkouts, "job-1", "agent-1", checkouts / tree)
    assert open_checkout(checkouts, "job-1", "agent-1", checkouts / "agent-1" / "w").tree.is_dir()


# -- a workspace that means harm ---------------------------------------------------------------------------


def test_nothing_runs_that_a_hostile_workspace_names(own: Repository, hub: str, tmp_path: Path) -> None:
    tree, hits = own.tree, tmp_path / "hits"
    hits.mkdir()
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {hits}/$(basename $0)$1\ncat >/dev/null </dev/null\n")
    trap.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    (tree / "a.txt").write_text("a\n")
    (tree / "b.bin").write_text("b\n")
    (tree / ".gitattributes").write_text(
        "*.txt filter=evil diff=evil merge=evil\n*.bin filter=lfs diff=lfs merge=lfs -text\n"
    )
    (tree / ".gitmodules").write_text(
        f'[submodule "n"]\n path = n\n url = ext::sh -c "touch {hits}/sub"\n update = !{trap}\n'
    )
    (tree / ".lfsconfig").write_text(f"[lfs]\n url = ext::{trap}\n")
    hooks = (
        "pre-commit",
        "post-index-change",
        "reference-transaction",
        "post-checkout",
        "pre-push",
        "post-merge",
        "pre-auto-gc",
        "fsmonitor-watchman",
    )
    for hook in hooks:
        shutil.copy(trap, tree / ".git/hooks" / hook)
    settings = [
        "core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.lfs.process", "diff.evil.textconv", "diff.evil.command",
        "diff.external", "core.pager", "core.sshCommand", "core.gitProxy", "core.askPass", "merge.evil.driver", "gpg.program",
        "core.editor", "credential.helper", "core.alternateRefsCommand", "uploadpack.packObjectsHook",
    ]  # fmt: skip
    more = {
        "filter.lfs.required": "true",
        "commit.gpgSign": "true",
        "core.hooksPath": str(tree / ".git/hooks"),
        "core.worktree": "/etc",
    }
    more |= {"protocol.ext.allow": "always", "remote.origin.url": f"ext::{trap}", "extensions.partialClone": "origin"}
    for name, value in {**dict.fromkeys(settings, str(trap)), **more}.items():
        subprocess.run(["git", "config", "--file", str(tree / ".git/config"), name, value], check=True)
    before = (tree / ".git/config").read_bytes()
    (tree / ".git/info/attributes").write_text("* filter=evil\n")

    first = snap(own)
    (tree / "a.txt").write_text("aa\n")
    second = snap(own, first)
    own.become(first)
    (tree / "a.txt").write_text("other\n")
    third = snap(own, first)
    merge_commits(own.git_dir, second, third)
    own.diff(first, second)
    own.diff(first, second, stat=True)
    own.become(second)
    there = elsewhere(own, hub, second)
    assert (there / "a.txt").read_text() == "aa\n" and not (there / ".git").exists()
    assert os.listdir(hits) == []
    assert (tree / ".git/config").read_bytes() == before
    # The trap is one: git itself, in that folder, falls into it.
    subprocess.run(["git", "config", "--file", str(tree / ".git/config"), "--unset", "core.worktree"], check=True)
    subprocess.run(
        ["git", "config", "--file", str(tree / ".git/config"), "--unset", "extensions.partialClone"], check=True
    )
    subprocess.run(["git", "add", "-A"], cwd=tree, capture_output=True)
    assert os.listdir(hits) != []


def test_a_callers_variables_lead_nowhere_else(
    own: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    first = snap(own)
    assert call_git(own.git_dir, ["cat-file", "-t", first])[1] == b"commit\n"
