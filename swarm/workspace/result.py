"""An agent's work as commits on a history: the agent's own commits, then one with the rest.

Before them comes one with uncommitted changes from the job's start. All is made of facts alone, so a repeat makes the same commits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from swarm.core.records import JobView
from swarm.workspace.changes_applied import SUBMODULE, Change
from swarm.workspace.clean import find_lfs_files, put_files
from swarm.workspace.copies import Copies
from swarm.workspace.git_command import call_git, write_object
from swarm.workspace.large import unwrap
from swarm.workspace.merge import change_tree, list_changes
from swarm.workspace.repository import Repository


@dataclass(frozen=True)
class Result:
    """An agent's work in the job's store, to be put on a history. Everything raises `GitFailed`."""

    copies: Copies
    repository: Repository
    """A folder's, with both commits."""
    job: JobView
    base: str
    commit: str

    @property
    def history(self) -> tuple[str, str]:
        """The commits that were checked out at the beginning, and at the end."""
        head, ended = (self.repository.history.at(commit).commit for commit in (self.base, self.commit))
        return head, ended

    def find_lfs_files(self) -> dict[str, str]:
        """Return changed files that Git LFS keeps, with the reason for telling so: no filter makes them pointers."""
        changed = [one.path for one in list_changes(self.copies.store, self.base, self.commit) if one.new_mode]
        found = find_lfs_files(self.copies.store, self.commit, changed) if changed else []
        return dict.fromkeys(
            found, "its content, not a pointer of Git LFS; run `git add --renormalize` before you push"
        )

    def put_on(self, head: str, ended: str, place: str = "", *, began: str = "") -> str:
        """Commit the work on the history that ends in `head`; `ended` is the agent's last commit, `place` the folder of the files.

        `began` is the commit that stands for `head` in the agent's history, if it is another one.
        """
        began_at = began or head
        before, tree = self._put_in(head, place)
        last = head
        if ended != began_at and self.copies.holds(ended, began_at):
            last = self._sign_commits(head, began_at, ended)
        elif self.repository.tree_of(head) != before:
            last = self._commit(before, last, f"Not committed when {self.job.id} began")
        if self.repository.tree_of(last) == tree:
            return last
        return self._commit(tree, last, f"{self.job.title}\n\nSwarm-Job: {self.job.id}")

    def _put_in(self, head: str, place: str) -> tuple[str, str]:
        """Return the trees of the history with the files of the beginning, and with those of the end, in a place of it.

        Files that the person's repository took for unchanged stay until the agent changes them, even if their bytes differ: files
        that no snapshot can hold, those beyond a sparse checkout, those that a filter or Git itself converts, submodules.
        """
        store, settings = self.copies.store, self.repository.history.at(self.base).settings
        found = call_git(store, ["rev-parse", "-q", "--verify", f"{head}:{place.rstrip('/')}"], accept=(0, 1, 128))[1]
        before = list_changes(store, found.decode().strip() or write_object(store, "tree", b""), self.base)
        about = self.repository.about(self.base)
        dirty, unheld = about.get("dirty"), {path for path, _ in about.get("left_out", [])}
        modules = tuple(f"{one.path}/" for one in before if one.old_mode == SUBMODULE)
        kept = unheld | {one.path for one in before if dirty is not None and one.old_mode and one.path not in dirty}

        began_in_folder = self.repository.history.began_in_folder(self.base)

        def put(tree: str, changes: Sequence[Change]) -> str:
            fitting = unwrap(store, [one for one in changes if not f"{one.path}/".startswith(modules)])
            if began_in_folder:
                return put_files(store, self.repository.git_dir, tree, fitting, place, settings)
            return change_tree(store, tree, fitting, place)

        began = put(head, [one for one in before if one.path not in kept])
        return began, put(began, list_changes(store, self.base, self.commit))

    def _sign_commits(self, head: str, began: str, ended: str) -> str:
        """Make the agent's commits again, each with its job and agent in its message; returns the last one."""
        store, made = self.copies.store, {began: head}
        listed = call_git(store, ["rev-list", "--reverse", "--topo-order", ended, f"^{began}"])[1].decode().split()
        for commit in listed:
            text = call_git(store, ["cat-file", "commit", commit])[1]
            made[commit] = write_object(store, "commit", _sign(text, self.job.id, made))
        return made[ended]

    def _commit(self, tree: str, parent: str, message: str) -> str:
        who = f"swarm <swarm@localhost> {int(self.job.created_at)} +0000"
        text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{message}\n"
        return write_object(self.copies.store, "commit", text.encode())


def _sign(commit: bytes, job_id: str, made: dict[str, str]) -> bytes:
    """Return a commit's text with trailers, and with the commits that were made instead of its parents."""
    head, _, message = commit.partition(b"\n\n")
    lines = head.split(b"\n")
    author = re.search(rb"<([^<>@]*)@", next(line for line in lines if line.startswith(b"author ")))
    trailers = f"Swarm-Job: {job_id}\n".encode() + (b"Swarm-Agent: %s\n" % author[1] if author else b"")
    for number, line in enumerate(lines):
        kind, _, parent = line.partition(b" ")
        if kind == b"parent":
            lines[number] = b"parent " + made.get(parent.decode(), parent.decode()).encode()
    return b"\n".join(lines) + b"\n\n" + message.rstrip(b"\n") + b"\n\n" + trailers
