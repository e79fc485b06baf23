"""The history of a workspace's files: where it stands, and its commits in the runtime's own git folder.

The history is that of the person's repository, or what an agent has committed in its copy. The message of a snapshot holds where it
stands whenever that has changed, and the git folder holds the last known state.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from swarm.core.errors import GitFailed
from swarm.workspace.git_command import call_git, has_commit
from swarm.workspace.inner import mark_shallow, take_commits, take_history
from swarm.workspace.origin import Standing, find_git, read_copy, read_standing


class WorkspaceHistory:
    """The history of the workspace `tree`, in `git_dir`; `is_copy` says that an agent's own Git folder has it."""

    def __init__(self, git_dir: Path, tree: Path, *, is_copy: bool) -> None:
        self._git_dir, self._tree, self._is_copy = git_dir, tree, is_copy

    def known(self) -> Standing:
        """Return where the history stood at the last snapshot; nothing before the first one."""
        with suppress(OSError, ValueError, TypeError):
            return Standing(**json.loads((self._git_dir / "swarm-history").read_text()))
        return Standing()

    def note(self, standing: Standing) -> None:
        """Note where the history stands, with its ignore rules and its ends."""
        if standing.shallow:
            mark_shallow(self._git_dir, standing.shallow)
        (self._git_dir / "info/exclude").write_bytes(standing.rules.encode("utf-8", "surrogateescape"))
        new = self._git_dir / "swarm-history.new"
        new.write_text(json.dumps(standing.as_record()))
        new.replace(self._git_dir / "swarm-history")

    def look(self, known: Standing) -> Standing:
        """Return where the workspace's history stands now, with all of its commits in the git folder; `known` if it cannot be had."""
        try:
            if self._is_copy:
                return self._look_at_copy(known)
            git, standing = find_git(self._tree), read_standing(self._tree, known)
            if git is not None and standing.commit and standing != known:
                take_history(self._git_dir, git, standing)
        except GitFailed:
            return known
        is_whole = all(has_commit(self._git_dir, tip) for tip in standing.tips)
        return standing if is_whole else replace(known, rules=standing.rules)

    def _look_at_copy(self, known: Standing) -> Standing:
        standing = read_copy(self._tree, known)
        if new := [one for one in standing.tips if one not in known.tips]:
            take_commits(self._git_dir, self._tree, new, known.tips)
        return standing

    def start(self, tree: str, rules: str) -> Standing:
        """Begin a history whose first commit holds these files. Raises `GitFailed`."""
        made = call_git(self._git_dir, ["commit-tree", tree, "-m", "The files at the beginning"])[1]
        return Standing("ref: refs/heads/main", {"refs/heads/main": made.decode().strip()}, rules=rules)

    def at(self, commit: str) -> Standing:
        """Return where the history stands in a snapshot; nothing if the commit is none of the runtime's. Raises `GitFailed`."""
        words = ("--first-parent", "-1", "--format=%B", "--no-show-signature", "-F", '--grep="git": {', commit)
        with suppress(ValueError, TypeError, AttributeError):
            return Standing(**json.loads(call_git(self._git_dir, ["log", *words])[1]).get("git", {}))
        return Standing()
