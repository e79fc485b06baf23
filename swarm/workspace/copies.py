"""Copies of a workspace: their location, making one, and merging its changes back.

A job has one store of git objects, which all its copies use. Each agent has an index of its own there, for its own copy or for the
folder that it gives copies of. A copy begins with all current files of its original, committed or not, except files that git
ignores, and with its history. The person's own repository is only read.
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
from swarm.workspace.git_command import call_git, has_commit
from swarm.workspace.large import read_content
from swarm.workspace.merge import list_changes
from swarm.workspace.repository import Repository

ATTEMPTS = 4
"""Attempts of an operation while others change the files."""


@dataclass(frozen=True)
class CopyPlan:
    """The folder for copies of the workspace, or why none can be made."""

    folder: Path | None = None
    """The folder of copies; None: no copies can be made."""
    missing: str = "copies are not made here."
    """Why no copies can be made."""


def plan_copies(checkouts: Path) -> CopyPlan:
    """Plan the copies that this host can make."""
    if shutil.which("git") is None:
        return CopyPlan(missing="git is not on the PATH of the worker.")
    return CopyPlan(checkouts)


def person_of(job_id: str) -> str:
    """Return the name of the person's folder among the agents' folders."""
    return f"{job_id}-person"


class Copies:
    """The copies of one job on this host, below `checkouts`. Everything raises `GitFailed`."""

    def __init__(self, checkouts: Path, job_id: str) -> None:
        self._checkouts, self._job_id = checkouts, job_id
        self.store = place_store(checkouts, job_id)
        """The git folder with the commits of all agents of the job."""

    def repository(self, agent_id: str, folder: Path) -> Repository:
        """Return the repository of an agent's folder, whether it is a copy or not."""
        return open_folder(self._checkouts, self._job_id, agent_id, folder)

    # -- states --------------------------------------------------------------------------------------------

    def keep(self, agent_id: str, folder: Path, known: str, about: Mapping[str, Any]) -> str:
        """Commit the folder as it is now; return the previous commit, which may be `known`, if nothing changed."""
        if not folder.is_dir():
            raise GitFailed(f"{folder} no longer exists", "missing")
        repository = self.repository(agent_id, folder)
        before = next(
            (one for one in (repository.tip(), self._last(agent_id), known) if one and repository.has(one)), None
        )
        commit = repository.snapshot(before, about).commit or before
        assert commit is not None, "a first snapshot always has a commit"
        return commit

    def keep_left(self, agent_id: str, folder: Path) -> str:
        """Commit the copy of an ended agent that did not commit it; empty if this host has no such copy."""
        if not folder.is_dir() or not self._last(agent_id):
            return ""
        return self.keep(agent_id, folder, "", {"agent": agent_id, "kept": "after its end"})

    def _last(self, agent_id: str) -> str:
        """Return the last commit of an agent's folder that was made or restored here; empty without one."""
        try:
            return (self._checkouts / f"{agent_id}.git" / "refs/swarm/tip").read_text().strip()
        except OSError:
            return ""

    def has(self, commit: str) -> bool:
        """Whether the commit is among the job's."""
        return has_commit(self.store, commit)

    def holds(self, commit: str, earlier: str) -> bool:
        """Whether a commit descends from `earlier`, or equals it."""
        return call_git(self.store, ["merge-base", "--is-ancestor", earlier, commit], accept=(0, 1))[0] == 0

    def name(self, agent_id: str, mark: str, commit: str) -> None:
        """Set a ref to the commit, which keeps it as long as the store exists."""
        call_git(self.store, ["update-ref", f"refs/swarm/{agent_id}/{mark}", commit])

    def enter(self, agent_id: str, folder: Path, commits: Sequence[str]) -> None:
        """Ensure that the agent's own copy exists: as it was left, or made from the first of these commits that exists."""
        if folder.is_dir() and self._last(agent_id):
            return
        if not (self.store / "swarm-made").exists():
            raise GitFailed(
                f"{self.store} does not exist: the copies of this job are on another host, or SWARM_CHECKOUTS names another folder",
                "missing",
            )
        repository = self.repository(agent_id, folder)
        commit = next((one for one in commits if one and repository.has(one)), commits[-1])
        repository.become(commit)

    # -- coming back ---------------------------------------------------------------------------------------

    def carry_over(self, repository: Repository, ours: str, merged: str) -> list[str]:
        """Change the folder from `ours`, its current state, to `merged`; if paths lie in the way, return them and change nothing.

        Raises `ChangedMeanwhile` if the folder is no longer `ours`.
        """
        changes = list_changes(self.store, ours, merged)
        seen = seen_times(repository.tree, changes)
        # Files outside of commits (ignored, too big) must not be overwritten.
        in_the_way = [one.path for one in changes if not one.old_mode and os.path.lexists(repository.tree / one.path)]
        if in_the_way := [path for path in in_the_way if not _is_made_room_for(repository.tree / path, path, changes)]:
            return in_the_way
        if (again := repository.snapshot(ours, {"kept": "while merging"}).commit) is not None:
            raise ChangedMeanwhile(sorted(repository.changed_paths(ours, again)))
        apply_changes(repository.tree, changes, seen, lambda change: read_content(self.store, change.new_id))
        # The new state of the folder; concurrent changes of others come with the next commit.
        repository.snapshot(merged, {"kept": "after merging"})
        return []


def _is_made_room_for(full: Path, path: str, changes: Sequence[Any]) -> bool:
    """Whether a folder in a file's place is removed because all of its files are."""
    if not full.is_dir() or full.is_symlink():
        return False
    going = {one.path for one in changes if not one.new_mode}
    return all(
        os.path.join(path, os.path.relpath(os.path.join(top, name), full)) in going
        for top, _, names in os.walk(full)
        for name in names
    )
