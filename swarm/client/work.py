"""An agent's file changes as two commits: show their difference, or take them over into the person's folder.

For agents that work on copies (`isolation`, or a job whose files go through a hub). The person's folder is changed only while it is
in the state that was examined. The person's own Git repository gets only a branch; its index, hooks and working tree are not used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from swarm.agent.entries import Finished
from swarm.agent.spec import AgentSpec
from swarm.client.result_branch import make_branch
from swarm.core.errors import ConfigurationError, GitFailed, NoWork
from swarm.core.records import JobView
from swarm.core.settings import Settings
from swarm.permissions.arrivals import find_arrivals, spread
from swarm.store.store import Store
from swarm.workspace.changes_applied import Change, ChangedMeanwhile
from swarm.workspace.checkouts import job_url, open_folder, place_checkout
from swarm.workspace.copies import ATTEMPTS, Copies, person_of
from swarm.workspace.git_command import form_of
from swarm.workspace.merge import (
    MergeResult,
    Strategy,
    change_tree,
    describe_conflicts,
    find_unmarked,
    leave_out,
    list_changes,
    merge_trees,
    read_blob,
    resolve,
)
from swarm.workspace.repository import Repository
from swarm.workspace.result import Result


@dataclass(frozen=True)
class Applied:
    """The actual or possible changes to a folder."""

    changed: dict[str, str]
    """Path → `A`dded, `M`odified, `D`eleted or `T` (changed type)."""
    conflicts: str = ""
    """Merge conflicts, as text; if there are any, nothing was changed."""
    in_the_way: tuple[str, ...] = ()
    """Files unknown to Git at paths of the work; if there are any, nothing was changed."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Omitted paths and reasons: links that lead out of the folder, and files that programs outside the sandbox obey."""


Accept = Callable[[Mapping[str, str]], bool]
"""Decides whether the given paths, each with a reason, are changed."""


def accept_none(found: Mapping[str, str]) -> bool:
    """Leave all such paths out."""
    return False


def accept_all(found: Mapping[str, str]) -> bool:
    """Take all such paths over."""
    return True


def _asking_once(accept: Accept) -> Accept:
    """Return the same decision, which is not asked again about paths that it has accepted."""
    accepted = list[Mapping[str, str]]()

    def decide(found: Mapping[str, str]) -> bool:
        if found not in accepted and accept(found):
            accepted.append(found)
        return found in accepted

    return decide


@dataclass(frozen=True)
class _TakeOver:
    """A change of the folder from one commit to another, and its report once it is made."""

    ours: str
    merged: str
    applied: Applied
    is_whole: bool = False
    """Whether all of the work comes, with nothing left out or decided."""


class Work:
    """The work of one agent, for the person's folder or the one that `into` names. Every method raises `GitFailed`.

    Merges are by content: a folder's present files count, not its past. So work that was undone, stashed or
    left on another branch can be applied again, and applying twice changes nothing.
    """

    def __init__(
        self, settings: Settings, job: JobView, spec: AgentSpec, commit: str, into: Path | None = None
    ) -> None:
        self.job, self.folder, self.base, self.commit = job, into or Path(job.workspace), spec.base, commit
        self._spec, self._settings, self._into = spec, settings, into
        self._copies = Copies(settings.checkouts_folder(), job.id)

    def into(self, folder: Path) -> Work:
        """Return the same work, for another folder: a clone elsewhere, say."""
        return Work(self._settings, self.job, self._spec, self.commit, folder.resolve())

    @cached_property
    def _commits(self) -> Repository:
        """The job's store with both commits."""
        checkouts, form = self._settings.checkouts_folder(), form_of(self.base)
        repository = open_folder(checkouts, self.job.id, f"{self.job.id}-result", self._result_folder, form)
        files = self._spec.files
        if files is not None and self._spec.is_carried:
            token = self._settings.hub_token if files.hub == self._settings.hub else None
            for commit in (self.base, self.commit):
                repository.fetch(job_url(files.hub, self.job.id, form), commit, token)
        return repository

    @property
    def _result_folder(self) -> Path:
        return place_checkout(self._settings.checkouts_folder(), f"{self.job.id}-result", Path(self.job.workspace).name)

    @cached_property
    def _repository(self) -> Repository:
        """The folder, with the objects of both commits."""
        if not self.folder.is_dir():
            raise GitFailed(f"{self.folder} is not on this machine; name a folder for the work with --into", "missing")
        _ = self._commits
        return self._copies.repository(self._owner, self.folder)

    @property
    def _owner(self) -> str:
        mark = "" if self._into is None else f"-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]}"
        return person_of(self.job.id) + mark

    def diff(self, *, stat: bool = False) -> bytes:
        """The changes for a reader, as Git and the files have them: a patch, or with `stat` a line for each file."""
        return self._commits.diff(self.base, self.commit, stat=stat)

    @property
    def changes(self) -> dict[str, str]:
        """The changed paths, and how each changed."""
        return self._commits.changed_paths(self.base, self.commit)

    def check_out(self) -> Path:
        """Make a folder with all files of the work, and return it; it is removed with the job's kept files."""
        self._commits.become(self.commit)
        return self._result_folder

    def is_folder_as_it_was(self) -> bool:
        """Whether the folder is as at the job's start, or as after the last take-over of the job's work."""
        takeovers = self._read_takeovers()
        before = takeovers[-1]["after"] if takeovers else self.base
        return self._repository.tree_of(self._keep()) == self._repository.tree_of(before)

    def _keep(self) -> str:
        _ = self._repository
        return self._copies.keep(self._owner, self.folder, "", {"job": self.job.id})

    def find_arrivals(self) -> dict[str, str]:
        """The paths of the work that need confirmation, each with the reason."""
        _ = self._commits
        return self._find_arrivals(list_changes(self._copies.store, self.base, self.commit))

    def _find_arrivals(self, changes: Sequence[Change]) -> dict[str, str]:
        def content_of(change: Change) -> bytes:
            return read_blob(self._copies.store, change.new_id)

        return spread(find_arrivals(changes, self.folder, content_of), changes)

    # -- into the folder -----------------------------------------------------------------------------------

    def apply(
        self,
        strategy: Strategy | None = None,
        *,
        pick: Sequence[str] = (),
        dry_run: bool = False,
        accept: Accept = accept_none,
    ) -> Applied:
        """Merge the work into the folder as it is now; conflicting changes need a strategy. `pick` are the only files or folders.

        Links that lead out, and files that programs outside the sandbox obey, are left out unless `accept` takes them.
        """

        def merge(ours: str) -> MergeResult:
            if not pick and self._has_all(ours):
                return MergeResult(self._repository.tree_of(ours))
            base = self._find_base(ours)
            return merge_trees(self._copies.store, base, ours, self._pick(base, pick) if pick else self.commit)

        return self._take_over(merge, strategy, dry_run=dry_run, accept=accept, is_part=bool(pick))

    def undo(self, strategy: Strategy | None = None, *, dry_run: bool = False) -> Applied:
        """Take the last `apply` to this folder back, and keep all that changed there since. Raises `NoWork` if there is none."""
        takeovers = self._read_takeovers()
        if not takeovers:
            raise NoWork(f"nothing of {self.job.id} was applied to {self.folder}, or all of it is taken back")
        last = takeovers[-1]
        applied = self._take_over(
            lambda ours: merge_trees(self._copies.store, last["after"], ours, last["before"]),
            strategy,
            dry_run=dry_run,
            accept=accept_all,
            is_undo=True,
        )
        if not (dry_run or applied.conflicts or applied.in_the_way):
            self._write_takeovers(takeovers[:-1])
        return applied

    def _has_all(self, ours: str) -> bool:
        """Whether the folder still has all that a whole take-over of the work has changed: a file that you have renamed, say."""
        whole = [one for one in self._read_takeovers() if one["commit"] == self.commit and one.get("whole")]
        if not whole:
            return False
        now = {one.path for one in list_changes(self._copies.store, ours, whole[-1]["after"])}
        made = list_changes(self._copies.store, whole[-1]["before"], whole[-1]["after"])
        return now.isdisjoint(one.path for one in made)

    def _find_base(self, ours: str) -> str:
        """Return the tree that the work is compared with: the job's beginning, with the parts of earlier take-overs that the folder has."""
        store, base = self._copies.store, self.base
        for commit in dict.fromkeys(one["commit"] for one in self._read_takeovers()):
            if commit in ("", self.commit) or not self._copies.has(commit):
                continue
            merge = merge_trees(store, base, ours, commit)
            missing = {one.path for one in list_changes(store, ours, merge.tree)} | {
                one.place for one in merge.conflicts
            }
            there = [one for one in list_changes(store, base, commit) if one.path not in missing]
            base = change_tree(store, base, there)
        return base

    def _pick(self, base: str, pick: Sequence[str]) -> str:
        """Return the tree of the base with the work's changes of some files or folders. Raises `ConfigurationError`."""
        changes = list_changes(self._copies.store, base, self.commit)
        chosen = list[Change]()
        for given in pick:
            name = os.path.normpath(given).rstrip("/")
            found = [one for one in changes if name == "." or f"{one.path}/".startswith(f"{name}/")]
            if not found:
                raise ConfigurationError(
                    f"{given} is no changed file or folder of the work; `swarm diff --stat` lists them"
                )
            chosen += found
        return change_tree(self._copies.store, base, chosen)

    def _take_over(
        self,
        find: Callable[[str], MergeResult],
        strategy: Strategy | None,
        *,
        dry_run: bool,
        accept: Accept,
        is_undo: bool = False,
        is_part: bool = False,
    ) -> Applied:
        accept = _asking_once(accept)
        for _ in range(ATTEMPTS):
            plan = self._plan(find, strategy, accept)
            if dry_run or not plan.applied.changed:
                return plan.applied
            with suppress(ChangedMeanwhile):
                return self._carry_out(replace(plan, is_whole=plan.is_whole and not is_part), is_undo=is_undo)
        raise GitFailed(f"files of {self.folder} keep changing; try again later", "failed")

    def _plan(self, find: Callable[[str], MergeResult], strategy: Strategy | None, accept: Accept) -> _TakeOver:
        repository, store, ours = self._repository, self._copies.store, self._keep()
        merge = find(ours)
        if merge.conflicts and (told := _refuse(store, merge, strategy)):
            return _TakeOver(ours, ours, Applied({}, conflicts=told))
        tree = resolve(store, merge, strategy) if merge.conflicts and strategy in ("ours", "theirs") else merge.tree
        changes = list_changes(store, ours, tree)
        left_out = self._find_arrivals(changes)
        if left_out and accept(left_out):
            left_out = {}
        tree = leave_out(store, tree, [one for one in changes if one.path in left_out])
        merged = repository.commit_tree(tree, [ours], {"job": self.job.id})
        applied = Applied(repository.changed_paths(ours, merged), left_out=left_out)
        return _TakeOver(ours, merged, applied, is_whole=not (merge.conflicts or left_out))

    def _carry_out(self, plan: _TakeOver, *, is_undo: bool) -> Applied:
        """Change the folder as planned. Raises `ChangedMeanwhile`."""
        before = self._read_takeovers()
        if not is_undo:
            # First, because a process that dies in between must not leave work that cannot be taken back.
            whole = {"whole": "yes"} if plan.is_whole else {}
            made = {"commit": self.commit, "before": plan.ours, "after": plan.merged, **whole}
            self._write_takeovers([*before, made])
        try:
            in_the_way = self._copies.carry_over(self._repository, plan.ours, plan.merged)
        except ChangedMeanwhile:
            self._write_takeovers(before)
            raise
        if not in_the_way:
            return plan.applied
        self._write_takeovers(before)
        return replace(plan.applied, changed={}, in_the_way=tuple(in_the_way))

    def _read_takeovers(self) -> list[dict[str, str]]:
        """The take-overs into this folder that were not taken back, the oldest first."""
        with suppress(OSError, ValueError):
            return list(json.loads((self._repository.git_dir / "swarm-takeovers").read_text()))
        return []

    def _write_takeovers(self, takeovers: list[dict[str, str]]) -> None:
        file = self._repository.git_dir / "swarm-takeovers"
        file.with_suffix(".new").write_text(json.dumps(takeovers))
        file.with_suffix(".new").replace(file)

    # -- a branch ------------------------------------------------------------------------------------------

    @property
    def _result(self) -> Result:
        return Result(self._copies, self._repository, self.job, self.base, self.commit)

    def find_lfs_files(self) -> dict[str, str]:
        """The files of the work whose contents a branch has, although Git LFS keeps them, with the remedy."""
        return self._result.find_lfs_files()

    def make_branch(self, name: str = "") -> str:
        """Make a branch of the work in the folder's repository; returns its name. Raises `ConfigurationError`."""
        return make_branch(self._result, name or f"swarm/{self.job.id}", f"refs/swarm/{self._owner}/branch")


def _refuse(store: Path, merge: MergeResult, strategy: Strategy | None) -> str:
    """Describe the conflicts that a strategy leaves open; empty if it decides all of them."""
    if strategy in ("ours", "theirs"):
        return ""
    if strategy != "merge":
        return describe_conflicts(store, merge)
    unmarked = find_unmarked(store, merge)
    return describe_conflicts(store, replace(merge, conflicts=tuple(unmarked))) if unmarked else ""


def find_work(store: Store, settings: Settings, agent_id: str) -> Work:
    """An agent's work, as far as it is kept. Raises `NoWork`, `UnknownAgent`, `GitFailed`."""
    spec = store.agents.spec(agent_id)
    job = store.jobs.get(spec.job_id)
    if spec.is_carried:
        commit = store.journals.last_commit(agent_id)
    elif spec.isolation != "none":
        last = store.journals.last_entry(agent_id)
        commit = last.commit if isinstance(last, Finished) else ""
        commit = commit or Copies(settings.checkouts_folder(), job.id).keep_left(agent_id, Path(spec.workspace))
    else:
        raise NoWork(f"{agent_id} worked directly in {spec.workspace}, which others may share; look there")
    if not commit:
        raise NoWork(f"{agent_id} has no kept changes yet")
    return Work(settings, job, spec, commit)
