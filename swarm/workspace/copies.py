"""Copies of a workspace: where they lie, how one is made, and how what was done in it comes back.

A job has one store of git objects, which all its copies use; each agent has an index of its own there, for its own copy or for the
folder that it gives copies of. A copy begins with everything its original held at that moment, committed or not, but for what git
ignores. The person's own repository only lends its objects; nothing is written to it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm.core.errors import GitFailed
from swarm.workspace.changes_applied import ChangedMeanwhile, apply_changes, seen_times
from swarm.workspace.checkouts import open_folder, place_store
from swarm.workspace.git_command import call_git
from swarm.workspace.merge import list_changes, read_blob
from swarm.workspace.repository import Repository
from swarm.workspace.upload import held_though_ignored

ATTEMPTS = 4
"""How often the same is tried while others change the files."""


@dataclass(frozen=True)
class CopyPlan:
    """Who is given a copy of the workspace."""

    folder: Path | None = None
    """Where copies lie; None: none can be made."""
    missing: str = "copies are not made here."
    """Why not."""


def plan_copies(checkouts: Path) -> CopyPlan:
    """What can be had on this host."""
    if shutil.which("git") is None:
        return CopyPlan(missing="git is not on the PATH of the worker.")
    return CopyPlan(checkouts)


class Copies:
    """The copies of one job on this host, below `checkouts`. Everything raises `GitFailed`."""

    def __init__(self, checkouts: Path, job_id: str) -> None:
        self._checkouts, self._job_id = checkouts, job_id
        self.store = place_store(checkouts, job_id)
        """The git folder that holds what all agents of the job have kept."""

    def repository(self, agent_id: str, folder: Path) -> Repository:
        """What keeps the states of an agent's folder, be it a copy or not."""
        borrow = None if folder.is_relative_to(self._checkouts) else find_objects(folder)
        return open_folder(self._checkouts, self._job_id, agent_id, folder, borrow=borrow)

    # -- states --------------------------------------------------------------------------------------------

    def keep(self, agent_id: str, folder: Path, known: str, about: Mapping[str, Any]) -> str:
        """The commit that holds the folder as it is now: the one before, which may be `known`, if nothing changed since then."""
        if not folder.is_dir():
            raise GitFailed(f"{folder} is not there any more", "missing")
        repository = self.repository(agent_id, folder)
        before = next(
            (one for one in (repository.tip(), self._last(agent_id), known) if one and repository.has(one)), None
        )
        # The person's own repository may hold what it ignores.
        also = held_though_ignored(folder) if before is None else ()
        commit = repository.snapshot(before, about, also=also).commit or before
        assert commit is not None, "a first snapshot always has a commit"
        return commit

    def keep_left(self, agent_id: str, folder: Path) -> str:
        """The same for a copy whose agent is over and has not done it; empty if there is no such copy here."""
        if not folder.is_dir() or not self._last(agent_id):
            return ""
        return self.keep(agent_id, folder, "", {"agent": agent_id, "kept": "after its end"})

    def _last(self, agent_id: str) -> str:
        """The last state of an agent's folder that was kept or made here, whatever became of the folder since; empty if none was."""
        try:
            return (self._checkouts / f"{agent_id}.git" / "refs/swarm/tip").read_text().strip()
        except OSError:
            return ""

    def has(self, commit: str) -> bool:
        """Whether the commit is among the job's."""
        return call_git(self.store, ["cat-file", "-e", f"{commit}^{{commit}}"], accept=(0, 1, 128))[0] == 0

    def holds(self, commit: str, earlier: str) -> bool:
        """Whether a commit was made from another one, or is that."""
        return call_git(self.store, ["merge-base", "--is-ancestor", earlier, commit], accept=(0, 1))[0] == 0

    def name(self, agent_id: str, mark: str, commit: str) -> None:
        """Have a ref by that name the commit, as long as there is the store."""
        call_git(self.store, ["update-ref", f"refs/swarm/{agent_id}/{mark}", commit])

    def enter(self, agent_id: str, folder: Path, commits: Sequence[str]) -> None:
        """Have the agent's own copy be there: as it was left, or made of the first of these commits that is there."""
        if folder.is_dir() and self._last(agent_id):
            return
        if not (self.store / "swarm-made").exists():
            raise GitFailed(
                f"{self.store} is not there: the copies of this job lie on another host, or SWARM_CHECKOUTS names another folder",
                "missing",
            )
        repository = self.repository(agent_id, folder)
        repository.become(next((one for one in commits if one and repository.has(one)), commits[-1]))

    # -- coming back ---------------------------------------------------------------------------------------

    def carry_over(self, repository: Repository, ours: str, merged: str) -> list[str]:
        """Change the folder from `ours`, which it must be, to `merged`; returns the paths that lie in the way, and changed nothing then.

        Raises `ChangedMeanwhile` where the folder is not `ours` any more.
        """
        changes = list_changes(self.store, ours, merged)
        seen = seen_times(repository.tree, changes)
        # What is there and not held (ignored, too big) is nobody's to overwrite.
        in_the_way = [one.path for one in changes if not one.old_mode and os.path.lexists(repository.tree / one.path)]
        if in_the_way := [path for path in in_the_way if not _is_made_room_for(repository.tree / path, path, changes)]:
            return in_the_way
        if (again := repository.snapshot(ours, {"kept": "while merging"}).commit) is not None:
            raise ChangedMeanwhile(sorted(repository.changed_paths(ours, again)))
        apply_changes(repository.tree, changes, seen, lambda change: read_blob(self.store, change.new_id))
        # What it is from now on; what somebody else did in the meantime comes with the next state.
        repository.snapshot(merged, {"kept": "after merging"})
        return []


def _is_made_room_for(full: Path, path: str, changes: Sequence[Any]) -> bool:
    """Whether a folder that stands in a file's place goes, as all that it holds does."""
    if not full.is_dir() or full.is_symlink():
        return False
    going = {one.path for one in changes if not one.new_mode}
    return all(
        os.path.join(path, os.path.relpath(os.path.join(top, name), full)) in going
        for top, _, names in os.walk(full)
        for name in names
    )


def find_objects(folder: Path) -> Path | None:
    """The objects of the Git repository that a folder is the checkout of, or lies in; None without one.

    Only read as a store of objects: no setting of that repository is looked at.
    """
    for above in (folder, *folder.parents):
        git = above / ".git"
        if not git.exists():
            continue
        found = git / "objects" if git.is_dir() else _objects_of_worktree(git)
        return found.resolve() if found is not None and found.is_dir() and "\n" not in str(found) else None
    return None


def _objects_of_worktree(git: Path) -> Path | None:
    try:
        own = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
        return (own / (own / "commondir").read_text().strip() / "objects").resolve()
    except (OSError, ValueError):
        return None
