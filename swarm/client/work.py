"""An agent's file changes as two commits: show their difference, or take them over into the person's folder.

For agents that work on copies (`isolation`, or a job whose files go through a hub). The person's folder is changed only while it is
in the state that was examined. The person's own Git repository gets only a branch; its index, hooks and working tree are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from swarm.agent.entries import Finished
from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError, GitFailed, NoWork
from swarm.core.records import JobView
from swarm.core.settings import Settings
from swarm.permissions.arrivals import find_arrivals, spread
from swarm.store.store import Store
from swarm.workspace.changes_applied import Change, ChangedMeanwhile
from swarm.workspace.checkouts import job_url, lend_objects, open_checkout, place_checkout
from swarm.workspace.copies import ATTEMPTS, Copies, find_objects
from swarm.workspace.git import run_git
from swarm.workspace.git_command import call_git
from swarm.workspace.merge import (
    Strategy,
    describe_conflicts,
    leave_out,
    list_changes,
    merge_commits,
    read_blob,
    resolve,
)
from swarm.workspace.repository import Repository


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


def keep_folder(settings: Settings, folder: Path, job_id: str) -> str:
    """Keep a person's folder as the first commit of a job's copy; returns the commit. Raises `GitFailed`."""
    return Copies(settings.checkouts_folder(), job_id).keep(_person(job_id), folder, "", {"job": job_id})


def _person(job_id: str) -> str:
    """The name of the person's folder among the agents' folders."""
    return f"{job_id}-person"


class Work:
    """The work of one agent. Every method raises `GitFailed`."""

    def __init__(self, settings: Settings, job: JobView, spec: AgentSpec, commit: str) -> None:
        self.job, self.folder, self.base, self.commit = job, Path(job.workspace), spec.base, commit
        self._spec, self._settings = spec, settings
        self._copies = Copies(settings.checkouts_folder(), job.id)

    @cached_property
    def _repository(self) -> Repository:
        """The person's folder, with the objects of both commits."""
        repository = self._copies.repository(_person(self.job.id), self.folder)
        files = self._spec.files
        if files is not None and self._spec.is_carried:
            token = self._settings.hub_token if files.hub == self._settings.hub else None
            for commit in (self.base, self.commit):
                repository.fetch(job_url(files.hub, self.job.id), commit, token)
        return repository

    def diff(self, *, stat: bool = False) -> bytes:
        """The changes for a reader, as Git and the files have them: a patch, or with `stat` a line for each file."""
        return self._repository.diff(self.base, self.commit, stat=stat)

    @property
    def changes(self) -> dict[str, str]:
        """The changed paths, and how each changed."""
        return self._repository.changed_paths(self.base, self.commit)

    def check_out(self) -> Path:
        """Make a folder with all files of the work, and return it; it is removed with the job's kept files."""
        checkouts, name = self._settings.checkouts_folder(), f"{self.job.id}-result"
        tree = place_checkout(checkouts, name, self.folder.name)
        _ = self._repository  # fetches the commit into the job's store
        open_checkout(checkouts, self.job.id, name, tree).become(self.commit)
        return tree

    def is_folder_as_it_was(self) -> bool:
        """Whether the person's folder is as at the job's start, or as after the last take-over of the job's work."""
        before = self._repository.tip() or self.base
        return self._keep() == before

    def _keep(self) -> str:
        return self._copies.keep(_person(self.job.id), self.folder, self.base, {"job": self.job.id})

    def find_arrivals(self) -> dict[str, str]:
        """The paths of the work that need confirmation, each with the reason."""
        _ = self._repository  # fetches the commits into the job's store
        return self._find_arrivals(list_changes(self._copies.store, self.base, self.commit))

    def _find_arrivals(self, changes: Sequence[Change]) -> dict[str, str]:
        def content_of(change: Change) -> bytes:
            return read_blob(self._copies.store, change.new_id)

        return spread(find_arrivals(changes, self.folder, content_of), changes)

    def apply(
        self, strategy: Strategy | None = None, *, dry_run: bool = False, accept: Accept = accept_none
    ) -> Applied:
        """Merge the work into the person's current folder; conflicting changes need a strategy.

        Links that lead out, and files that programs outside the sandbox obey, are left out unless `accept` takes them.
        """
        repository, store = self._repository, self._copies.store
        accepted: dict[str, str] = {}
        for _ in range(ATTEMPTS):
            ours = self._keep()
            if self._copies.holds(ours, self.commit):
                return Applied({})
            merge = merge_commits(store, ours, self.commit)
            if merge.conflicts and strategy in (None, "none"):
                return Applied({}, conflicts=describe_conflicts(store, merge))
            tree = resolve(store, merge, strategy) if merge.conflicts and strategy in ("ours", "theirs") else merge.tree
            changes = list_changes(store, ours, tree)
            left_out = self._find_arrivals(changes)
            if left_out and (left_out == accepted or accept(left_out)):
                accepted, left_out = left_out, {}
            tree = leave_out(store, tree, [one for one in changes if one.path in left_out])
            # While something is left out, the work is not fully merged.
            parents = [ours] if left_out else [ours, self.commit]
            merged = repository.commit_tree(tree, parents, {"job": self.job.id})
            changed = repository.changed_paths(ours, merged)
            if dry_run or (left_out and not changed):
                return Applied(changed, left_out=left_out)
            try:
                in_the_way = self._copies.carry_over(repository, ours, merged)
            except ChangedMeanwhile:
                continue
            return Applied({} if in_the_way else changed, in_the_way=tuple(in_the_way), left_out=left_out)
        raise GitFailed(f"files of {self.folder} keep changing; try again later", "failed")

    # -- a branch ------------------------------------------------------------------------------------------

    def make_branch(self, name: str = "") -> str:
        """Make a branch of the work in the person's repository: one commit, after one with uncommitted changes from the job's start.

        Raises `ConfigurationError` if there is no repository, or the branch exists with different contents.
        """
        name = name or f"swarm/{self.job.id}"
        objects = find_objects(self.folder)
        if objects is None:
            raise ConfigurationError(f"{self.folder} is in no Git repository, so no branch can be made; omit --branch")
        lend_objects(self._repository.git_dir.resolve().with_name(self._copies.store.name), objects)
        commit, ref = self._commit_on_top(), f"refs/swarm/{_person(self.job.id)}/branch"
        call_git(self._copies.store, ["update-ref", ref, commit])
        there = self._ask("rev-parse", "--verify", "--quiet", f"refs/heads/{name}")
        if there and self._tree_of(there) == self._tree_of(commit):
            return name
        if there:
            raise ConfigurationError(f"the branch {name} exists with different contents; choose another name")
        words = [
            "fetch",
            "-q",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
        ]
        words += [str(self._copies.store), f"{ref}:refs/heads/{name}"]
        done = run_git(self.folder, words, settings={"protocol.file.allow": "always"}, timeout_seconds=600)
        if done.returncode:
            raise ConfigurationError(
                f"the branch {name} cannot be made: {done.stderr.decode(errors='replace').strip()[-300:]}"
            )
        return name

    def _commit_on_top(self) -> str:
        """Commit the work on top of the person's last commit at the job's start."""
        head = self._ask("rev-list", "-1", f"--before=@{int(self.job.created_at)}", "HEAD")
        parents = [head] if head else []
        began = self._tree_of(self.base)
        if not head or self._tree_of(head) != began:
            parents = [self._commit(began, parents, f"Not committed when {self.job.id} began")]
        return self._commit(self._tree_of(self.commit), parents, f"{self.job.title}\n\n{self.job.id}")

    def _commit(self, tree: str, parents: list[str], message: str) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        made = call_git(self._copies.store, ["commit-tree", tree, *words, "-F", "-"], stdin=message.encode())
        return made[1].decode().strip()

    def _tree_of(self, commit: str) -> str:
        return call_git(self._copies.store, ["rev-parse", "--verify", "-q", f"{commit}^{{tree}}"])[1].decode().strip()

    def _ask(self, *words: str) -> str:
        done = run_git(self.folder, words)
        return "" if done.returncode else done.stdout.decode(errors="replace").strip()


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
