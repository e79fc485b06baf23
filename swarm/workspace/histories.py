"""Histories of repositories, shared by all jobs of a host: a job fetches only the commits that the host has never seen.

`.history/ROOT` below the checkouts holds packs of objects and `tips`, the commits that they lead to. ROOT is the history's first
commit, which the job's repository at the hub names. A store gets the packs as further names of the same files, so a history may be
removed at any time. It has commits of the history alone, and no other file of a job.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from swarm.core.errors import GitFailed
from swarm.workspace.git_command import OBJECT_ID, call_git
from swarm.workspace.inner import link_objects
from swarm.workspace.repository import NETWORK_SECONDS, Repository

FOLDER = ".history"
UNUSED_SECONDS = 7 * 86_400.0
_ROOT = re.compile(rf"refs/swarm/root/({OBJECT_ID})")
_MARK = "swarm-history-shared"


def find_root(repository: Repository, commit: str) -> str:
    """Return the first commit of a history. Raises `GitFailed`."""
    return call_git(repository.git_dir, ["rev-list", "--max-parents=0", commit])[1].decode().split()[-1]


def root_ref(root: str) -> str:
    """Return the ref at the hub that names a job's history."""
    return f"refs/swarm/root/{root}"


def fetch_with_history(
    checkouts: Path, repository: Repository, url: str, commit: str, token: str | None, seconds: float = NETWORK_SECONDS
) -> None:
    """Fetch a commit into a job's store on this host, which takes the known part of its history from other jobs. Raises `GitFailed`."""
    store = (repository.git_dir / "objects").resolve().parent
    if repository.has(commit) or (store / _MARK).exists():
        repository.fetch(url, commit, token, seconds=seconds)
        return
    named = call_git(store, ["ls-remote", "-q", url, root_ref("*")], token=token, seconds=seconds)[1]
    found = _ROOT.search(named.decode("utf-8", "replace"))
    history = checkouts / FOLDER / found[1] if found is not None else None
    if history is not None:
        _take(history, repository)
    repository.fetch(url, commit, token, seconds=seconds)
    if history is not None:
        with suppress(OSError, GitFailed):
            _give(history, store, repository.history.at(commit).commit)
    (store / _MARK).touch()


def _take(history: Path, repository: Repository) -> None:
    with suppress(OSError, GitFailed):
        link_objects(history, (repository.git_dir / "objects").resolve())
        for tip in _read_tips(history):
            # Git offers the commits of refs when it fetches.
            call_git(repository.git_dir, ["update-ref", f"refs/swarm/known/{tip}", tip])
        os.utime(history)


def _give(history: Path, store: Path, head: str) -> None:
    tips = _read_tips(history)
    if not head or head in tips:
        return
    (history / "pack").mkdir(mode=0o700, parents=True, exist_ok=True)
    revisions = "".join([f"{head}\n", *(f"^{tip}\n" for tip in tips)]).encode()
    call_git(store, ["pack-objects", "-q", "--revs", "--non-empty", str(history / "pack/pack")], stdin=revisions)
    with (history / "tips").open("a") as file:
        file.write(f"{head}\n")


def _read_tips(history: Path) -> list[str]:
    with suppress(OSError):
        return list(dict.fromkeys((history / "tips").read_text().split()))
    return []


def remove_histories(checkouts: Path, *, every: bool) -> None:
    """Remove the histories that no new job has used for a week, or every one."""
    for history in (checkouts / FOLDER).glob("*"):
        with suppress(OSError):
            if every or time.time() - history.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(history, ignore_errors=True)
