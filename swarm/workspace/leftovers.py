"""Agents' files left on a host, and the ones that may be removed. The hub has all commits of an ended or moved agent's journal.

Without a hub, copies exist nowhere else: they stay until their job is forgotten, whatever room they take.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swarm.workspace.checkouts import READERS
from swarm.workspace.git_command import locked
from swarm.workspace.histories import remove_histories
from swarm.workspace.remotes import remove_repositories
from swarm.workspace.spares import FOLDER

FORGOTTEN_SECONDS = 3_600.0
"""Age before unknown files are removed: they may belong to a swarm with another Redis, or to a new agent."""
_ASIDE = ".gone-"

LeftoverState = Literal["needed", "kept", "free"]
"""A known agent may continue here at any moment; it has ended or moved, and its files are only here; or the hub has all of them."""


@dataclass(frozen=True)
class Leftover:
    """The files of one agent, or the store of one job, on this host."""

    name: str
    """The agent's id, or the job's."""
    store: str
    """The job whose objects an agent uses; empty for a store."""
    used_at: float
    bytes: int = 0


def list_held(checkouts: Path) -> list[Leftover]:
    """List all agents' files and stores, not measured yet."""
    found = []
    for git_dir in checkouts.glob("*.git"):
        with suppress(OSError):
            marks = [git_dir, git_dir / "index", git_dir / "swarm-tip", git_dir / "swarm-boot"]
            used_at = max(one.stat().st_mtime for one in marks if one.exists())
            objects = git_dir / "objects"
            store = objects.readlink().parent.name.removesuffix(".git") if objects.is_symlink() else ""
            found.append(Leftover(git_dir.stem, store, used_at))
    return found


def measure(checkouts: Path, name: str) -> int:
    """Count the bytes that an agent's checkout, or a job's store, takes on the disk."""
    size = 0
    for top in (checkouts / name, checkouts / f"{name}.git"):
        for folder, _, files in os.walk(top):
            for file in files:
                with suppress(OSError):
                    size += os.lstat(os.path.join(folder, file)).st_blocks * 512
    return size


def choose(held: Iterable[Leftover], known: Mapping[str, LeftoverState], *, most_bytes: int, now: float) -> list[str]:
    """Choose what to remove: old unknown files, then the least recently used that the hub has, until the rest fits."""
    rest = list(held)
    agents = [one for one in rest if one.store]
    old = {one.name for one in rest if one.name not in known and now - one.used_at > FORGOTTEN_SECONDS}
    gone = [one.name for one in agents if one.name in old]
    over = sum(one.bytes for one in rest if one.name not in gone) - most_bytes
    for one in sorted(agents, key=lambda one: one.used_at):
        if over > 0 and known.get(one.name) == "free":
            gone.append(one.name)
            over -= one.bytes
    # A store is removed after all agents that use it.
    in_use = {one.store for one in agents if one.name not in gone}
    return gone + [one.name for one in rest if not one.store and one.name in old and one.name not in in_use]


def leave_alone(checkouts: Path, name: str) -> None:
    """Have a process that continues the agent check its files first, so that it waits for `take_away` and finds them gone."""
    with suppress(OSError):
        (checkouts / f"{name}.git" / "swarm-busy").touch()


def take_away(checkouts: Path, name: str) -> bool:
    """Remove the files of an agent, a job's store or a shared checkout: move them away atomically, then delete them.

    Returns False, and removes nothing, while another process reads them.
    """
    git_dir = checkouts / f"{name}.git"
    aside = [checkouts / f"{_ASIDE}{secrets.token_hex(8)}" for _ in range(2)]
    try:
        with suppress(FileNotFoundError), locked(git_dir), _unread(git_dir):
            git_dir.rename(aside[0])
            (checkouts / name).rename(aside[1])
    except BlockingIOError:
        return False
    for left in aside:
        _delete(left)
    return True


@contextmanager
def _unread(git_dir: Path) -> Iterator[None]:
    """Keep new readers out of a shared checkout. Raises `BlockingIOError` if it has a reader."""
    if not (git_dir / READERS).exists():
        yield
        return
    with (git_dir / READERS).open("rb") as readers:
        fcntl.flock(readers, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def remove_leftovers(checkouts: Path, *, spares: bool = False) -> None:
    """Finish removals of dead processes, and remove spare checkouts and histories unused for long; with `spares`, all of them."""
    remove_histories(checkouts, every=spares)
    remove_repositories(checkouts, every=spares)
    ready = checkouts / FOLDER
    for left in [*checkouts.glob(f"{_ASIDE}*"), *ready.glob("*")]:
        with suppress(OSError):
            if (spares and left.parent == ready) or time.time() - left.stat().st_ctime > FORGOTTEN_SECONDS:
                aside = checkouts / f"{_ASIDE}{secrets.token_hex(8)}"
                left.rename(aside)
                _delete(aside)
    with suppress(OSError):
        ready.rmdir()


def _delete(folder: Path) -> None:
    if not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    # An agent may have left folders that cannot be written.
    for top, _, _ in os.walk(folder):
        with suppress(OSError):
            os.chmod(top, 0o700, follow_symlinks=False)
    shutil.rmtree(folder, ignore_errors=True)
