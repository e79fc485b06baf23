"""A job on a repository in any state: the person's files and Git folder stay, the copy's Git agrees, and the work comes back.

Tests of swarm/client/result_branch.py, swarm/client/work.py, swarm/workspace/clean.py, swarm/workspace/inner.py, swarm/workspace/origin.py,
swarm/workspace/repository.py, swarm/workspace/workspace_history.py.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm import Settings
from swarm.workspace.checkouts import job_url, open_checkout
from swarm.workspace.git_command import form_of
from swarm.workspace.histories import fetch_with_history
from swarm.workspace.repository import Repository
from swarm.workspace.upload import send_folder
from tests.git_world import AGENT, JOB, World, listing, sh
from tests.needs import need, need_program

FIRST = """
git init -q -b main w; cd w; seq 9 > t; mkdir d; echo 1 > d/x; echo '#!/bin/sh' > run; chmod +x run; ln -s t link; echo '*.ign' > .gitignore
git add -A; git commit -qm first; echo 10 >> t; git commit -qam second
"""
NO_FILES = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
DIRTY = "\necho dirty >> d/x; echo new > untracked; echo s > secret.ign\n"


@dataclass(frozen=True)
class State:
    """A state of a repository, and what is not the same in a copy of it."""

    made: str
    """A script that makes it, in the folder `w`."""
    but: str = ""
    """What of `log`, `blame`, `diff` and `changed` differs in a copy."""
    not_sent: str = ""
    """What of it differs on another host, besides."""


STATES = {
    "plain": State(FIRST + DIRTY),
    "worktree of a bare clone": State(
        f"(mkdir o; cd o; {FIRST}); git clone -q --bare o/w b.git; git -C b.git worktree add -q ../w main; cd w{DIRTY}"
    ),
    "linked worktree": State(f"(mkdir o; cd o; {FIRST}); git -C o/w worktree add -qb side ../../w; cd w{DIRTY}"),
    "shallow": State(f"(mkdir o; cd o; {FIRST}); git clone -q --depth 1 file://$PWD/o/w w; cd w{DIRTY}"),
    "partial clone": State(
        f"(mkdir o; cd o; {FIRST}git config uploadpack.allowFilter true); "
        f"git clone -q --filter=blob:none file://$PWD/o/w w; cd w{DIRTY}",
        not_sent="log blame diff changed",
    ),
    "sparse checkout": State(
        f"{FIRST}mkdir far; echo f > far/f; git add far; git commit -qm far; git sparse-checkout set --no-cone '/*' '!/far/'{DIRTY}"
    ),
    "submodule": State(
        f"(git init -q sub; cd sub; echo s > s; git add s; git commit -qm s); {FIRST}"
        f"git -c protocol.file.allow=always submodule --quiet add ../sub sub; git commit -qm sub; echo more >> sub/s{DIRTY}",
        but="diff changed",
    ),
    "detached": State(f"{FIRST}git checkout -q --detach HEAD~1{DIRTY}"),
    "unborn branch": State(
        "git init -q w; cd w; echo 1 > t; mkdir d; echo x > d/x; git add t", but="log blame changed"
    ),
    "in a merge": State(
        f"{FIRST}git checkout -qb o HEAD~1; echo o >> t; git commit -qam o; git merge -q main >/dev/null || true{DIRTY}"
    ),
    "in a rebase": State(
        f"{FIRST}git checkout -qb o HEAD~1; echo o >> t; git commit -qam o; git rebase -q main >/dev/null 2>&1 || true{DIRTY}"
    ),
    "in a cherry-pick": State(
        f"{FIRST}git checkout -qb o HEAD~1; echo o >> t; git commit -qam o; git cherry-pick main >/dev/null 2>&1 || true{DIRTY}"
    ),
    "in a bisect": State(f"{FIRST}git commit -qm 3 --allow-empty; git bisect start -q HEAD HEAD~2 >/dev/null{DIRTY}"),
    "with a stash": State(f"{FIRST}echo stashed >> t; git stash -q; {DIRTY}"),
    "assumed unchanged": State(
        f"{FIRST}git update-index --assume-unchanged t; echo 11 >> t{DIRTY}", but="diff changed"
    ),
    "skipped": State(f"{FIRST}git update-index --skip-worktree t; echo 11 >> t{DIRTY}", but="diff changed"),
    "intended to add": State(f"{FIRST}echo n > n; git add -N n{DIRTY}"),
    "names that differ in case": State(f"{FIRST}echo a > Same; echo b > same; git add -A; git commit -qm case{DIRTY}"),
    "line ends converted": State(
        f"{FIRST}git config core.autocrlf true; printf '*.txt eol=crlf\\n*.sh eol=lf\\n' > .gitattributes; "
        f"printf 'a\\r\\nb\\r\\n' > a.txt; echo c > c.sh; git add -A 2>/dev/null; git commit -qm eol; rm t; git checkout -q -- t{DIRTY}",
    ),
    "pointers of LFS": State(
        f"{FIRST}echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes; "
        "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize 9\\n' > b.bin; git add -A; git commit -qm lfs"
        + DIRTY
    ),
    "SHA-256": State(
        f"{FIRST.replace('git init', 'git init --object-format=sha256')}{DIRTY}",
    ),
    "replaced and grafted": State(
        f"{FIRST}git commit -qm third --allow-empty; git replace --graft HEAD HEAD~2 2>/dev/null{DIRTY}",
        but="log blame",
    ),
    "alternates": State(f"(mkdir o; cd o; {FIRST}); git clone -q --shared o/w w; cd w{DIRTY}"),
    "settings of a worktree": State(
        f"{FIRST}git config extensions.worktreeConfig true; git config --worktree core.autocrlf input{DIRTY}"
    ),
    "another owner": State(f"{FIRST}{DIRTY}chown -R 12345 ."),
    "a Git folder elsewhere": State(f"{FIRST}cd ..; mv w/.git g; git init -q --separate-git-dir=$PWD/g w; cd w{DIRTY}"),
    "names that are not UTF-8": State(
        f"{FIRST}echo x > \"$(printf 'n\\377')\"; git add -A; git commit -qm name; echo y > \"$(printf 'm\\376\\n')\"{DIRTY}"
    ),
    "loops of links": State(
        f"{FIRST}ln -s loop loop; ln -s .. up; ln -s . here; git add -A; git commit -qm loop{DIRTY}"
    ),
    "pipes and sockets": State(
        f"{FIRST}mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'{DIRTY}"
    ),
    "a repository inside": State(
        f"{FIRST}git init -q in; echo i > in/i; git -C in add i; git -C in commit -qm i{DIRTY}"
    ),
    "a very large file": State(
        f"{FIRST}truncate -s 33M big; git add big; git commit -qm big; truncate -s 40M other{DIRTY}"
    ),
}


def everything(folder: Path) -> dict[str, tuple[int, bytes, int]]:
    """Every entry of a folder, Git's own too: its mode, content and last change; an object in use has a newer one."""
    found = {}
    for top, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            full = os.path.join(top, name)
            seen = os.lstat(full)
            content = b""
            if stat.S_ISLNK(seen.st_mode):
                content = os.fsencode(os.readlink(full))
            elif stat.S_ISREG(seen.st_mode):
                content = Path(full).read_bytes()
            found[os.path.relpath(full, folder)] = (
                seen.st_mode,
                content,
                0 if "/objects/" in full else seen.st_mtime_ns,
            )
    return found


def _beside(found: dict[str, tuple[int, bytes, int]]) -> dict[str, tuple[int, bytes, int]]:
    return {name: one for name, one in found.items() if "/.git" in name or not f"{name}/".startswith("w/")}


def git(folder: Path, *words: str) -> bytes:
    given = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    command = ["git", "-c", "safe.directory=*", *words]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, check=False).stdout


def view(folder: Path) -> dict[str, object]:
    """What Git says about a folder; whether a new file is staged does not count."""
    changed = git(folder, "diff", "-z", "--name-only", "--no-renames", "HEAD")
    others = git(folder, "ls-files", "-z", "--others", "--exclude-standard")
    inner = {os.path.relpath(path, folder).encode() for path in folder.rglob("in/*") if path.is_file()}
    return {
        "log": git(folder, "log", "--format=%H %T %P %an %ad %B"),
        "blame": git(folder, "blame", "-p", "HEAD", "--", "t"),
        "diff": git(folder, "diff", "HEAD", "--no-renames", "--diff-filter=a", "--abbrev=40"),
        "changed": set(filter(None, (changed + others).replace(b"in/\0", b"").split(b"\0"))) | inner,
    }


QUICK = (
    *(
        "worktree of a bare clone",
        "shallow",
        "partial clone",
        "sparse checkout",
        "submodule",
        "unborn branch",
        "in a merge",
        "skipped",
    ),
    *(
        "line ends converted",
        "SHA-256",
        "names that are not UTF-8",
        "pipes and sockets",
        "a repository inside",
        "a very large file",
    ),
)


@pytest.mark.parametrize("case", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.long) for one in STATES])
def test_a_job_on_a_repository_in_any_state(case: str, tmp_path: Path) -> None:
    need_program("git")
    state, top = STATES[case], tmp_path / "person"
    top.mkdir()
    need(case != "another owner" or os.geteuid() == 0, "root")
    sh(top, state.made)
    folder = top / "w"
    original, before = view(folder), everything(top)

    world = World(tmp_path, folder)
    work = world.work("echo job > made; echo J >> run; git add made; git commit -qm 'by the agent' || true")
    assert everything(top) == before
    assert ("pipe (it is a pipe), socket (it is a socket)" in str(world.warnings)) == ("pipes" in case)
    copy_had = {name: one for name, one in listing(world.copy).items() if name not in ("made", "run")}
    expected = {
        name: one
        for name, one in listing(folder).items()
        if name not in ("secret.ign", "run")
        and not name.endswith("/.git")
        and stat.S_IFMT(one[0]) in (stat.S_IFREG, stat.S_IFLNK)
    }
    assert copy_had == expected

    sh(world.copy, "git reset -q --soft HEAD~1 2>/dev/null; rm made; sed -i '$d' run; test -s run || rm run")
    now = view(world.copy)
    assert {name for name in original if now[name] != original[name]} == set(state.but.split()), (original, now)

    files = listing(folder)
    applied = work.apply()
    assert set(applied.changed) == {"made", "run"} and not applied.conflicts
    after = listing(folder)
    assert {name for name in {*after, *files} if after.get(name) != files.get(name)} == {"made", "run"}
    assert _beside(everything(top)) == _beside(before)
    work.undo()
    assert listing(folder) == files
    assert work.find_lfs_files() == {}
    name = work.make_branch()
    head = git(folder, "rev-parse", "-q", "--verify", "HEAD").decode().strip() or NO_FILES
    told = git(folder, "diff", "-z", "--name-only", "--no-renames", head, name)
    known = {b"t"} if head == NO_FILES else set()
    assert set(told.split(b"\0")) - {b""} == original["changed"] - {b"sub"} | {b"made", b"run"} | known  # type: ignore[operator]


@pytest.mark.long
@pytest.mark.parametrize("case", STATES)
def test_any_state_is_the_same_on_the_next_host(case: str, tmp_path: Path) -> None:
    need_program("git")
    need(case != "another owner" or os.geteuid() == 0, "root")
    state, top, hub = STATES[case], tmp_path / "person", str(tmp_path / "hub")
    top.mkdir()
    sh(top, state.made)
    folder = top / "w"
    original, before = view(folder), everything(top)
    sent = send_folder(Settings(state_dir=tmp_path / "state"), folder, hub, JOB, AGENT)
    form = form_of(sent.commit)

    def bring(place: str, commit: str) -> Repository:
        checkouts = tmp_path / place
        repository = open_checkout(checkouts, JOB, AGENT, checkouts / AGENT / "w", form)
        fetch_with_history(checkouts, repository, job_url(hub, JOB, form), commit, None)
        repository.become(commit)
        return repository

    first = bring("first", sent.commit)
    assert everything(top) == before
    now = view(first.tree)
    expected = set(f"{state.but} {state.not_sent}".split())
    assert {name for name in original if now[name] != original[name]} == expected, (original, now)
    assert bool(state.not_sent) == ("the history of" in str(sent.warnings))
    sh(first.tree, "echo job > made; echo J >> run; git add made; git commit -qm 'by the agent' || true", known=False)
    took = first.snapshot(sent.commit, {"agent": AGENT})
    assert took.commit is not None
    first.push(job_url(hub, JOB, form), took.commit, f"refs/swarm/{AGENT}/1-1")
    second = bring("second", took.commit)
    assert listing(second.tree) == listing(first.tree) and view(second.tree) == view(first.tree)


HOOKS = re.findall(
    r"\S+",
    """
applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase
post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout
pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change p4-changelist p4-prepare-changelist p4-post-changelist
p4-pre-submit
""",
)
PROGRAMS = re.findall(
    r"\S+",
    """
core.fsmonitor core.sshCommand core.pager core.editor core.askPass core.gitProxy core.alternateRefsCommand sequence.editor
diff.external diff.evil.command diff.evil.textconv merge.evil.driver filter.evil.clean filter.evil.smudge credential.helper
gpg.program gpg.ssh.program uploadpack.packObjectsHook interactive.diffFilter sendemail.smtpServer trailer.evil.command
""",
)


def test_nothing_runs_that_a_repository_names(tmp_path: Path) -> None:
    need_program("git")
    top, ran, evil = tmp_path / "person", tmp_path / "ran", tmp_path / "evil"
    top.mkdir()
    sh(
        top,
        f"{FIRST}echo '* filter=evil diff=evil merge=evil' > .gitattributes; echo l > p.bin; git add -A; git commit -qm more{DIRTY}",
    )
    folder = top / "w"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\nexec cat\n')
    evil.chmod(0o755)
    for hook in HOOKS:
        (folder / ".git/hooks" / hook).symlink_to(evil)
    settings = {
        **dict.fromkeys(PROGRAMS, str(evil)),
        **{f"alias.{name}": f"!{evil}" for name in ("status", "diff", "ls-files", "config", "fetch", "x")},
        **{"core.hooksPath": str(folder / ".git/hooks"), "filter.evil.required": "true", "commit.gpgSign": "true"},
        **{"protocol.ext.allow": "always", "remote.origin.url": f"ext::{evil}", "include.path": "../more"},
        **{"includeIf.gitdir:/.path": "../more", "core.attributesFile": str(tmp_path / "attributes")},
    }
    (tmp_path / "attributes").write_text("* filter=other\n")
    (folder / "more").write_text(
        f'[filter "other"]\n\tprocess = {evil}\n\tclean = {evil}\n[core]\n\tfsmonitor = {evil}\n'
    )
    for name, value in settings.items():
        sh(folder, f"git config --file .git/config '{name}' '{value}'")

    world = World(tmp_path, folder)
    work = world.work(
        "echo J >> t; echo j > p.bin; git add -A; git commit -qm mine; git status; git log -p; git diff HEAD~1; git blame t; "
        "git checkout -q HEAD~1 -- t; git checkout -q HEAD -- t; git stash -q || true; git merge -q HEAD; git gc -q; echo z > z"
    )
    assert work.diff() and work.check_out() and work.is_folder_as_it_was()
    assert set(work.apply().changed) == {"t", "p.bin", "z"}
    work.undo()
    assert work.make_branch() and not ran.exists()
    subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
    assert ran.exists(), "the trap is none"
