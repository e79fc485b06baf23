"""The history of a workspace's files: where it stands, and its commits in the runtime's own git folder.

The history is that of the person's repository, or what an agent has committed in its copy. The message of a snapshot holds where it
stands whenever that has changed, and the git folder holds the last known state.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm.core.errors import GitFailed
from swarm.workspace.git_command import call_git, form_of, has_commit, read_form
from swarm.workspace.inner import mark_shallow, take_commits, take_history
from swarm.workspace.merge import list_changes
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
            if standing.commit and form_of(standing.commit) != read_form(self._git_dir):
                # A clone of another form, say, that a job's work is applied to.
                return replace(known, rules=standing.rules)
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
        with suppress(ValueError, TypeError, AttributeError):
            return Standing(**self._find_told('"git": {', commit)[1].get("git", {}))
        return Standing()

    def list_absent(self, standing: Standing, commit: str) -> list[str]:
        """List files of the history that the workspace never had, and that its repository does not miss. Raises `GitFailed`.

        They are beyond a sparse checkout, say, or too large for a snapshot.
        """
        gone = {one.path for one in list_changes(self._git_dir, standing.commit, commit) if not one.new_mode}
        with suppress(ValueError, TypeError, AttributeError):
            if gone:
                began, told = self._find_told('"dirty": ', commit)
                since = {one.path for one in list_changes(self._git_dir, began, commit)}
                return sorted(gone - since - set(told["dirty"]))
        return []

    def began_in_folder(self, commit: str) -> bool:
        """Whether a snapshot's job began from a person's files; else from a commit, so its files have the form of commits."""
        with suppress(ValueError):
            return bool(self._find_told('"dirty": ', commit)[0])
        return False

    def _find_told(self, words: str, commit: str) -> tuple[str, dict[str, Any]]:
        """Return the newest snapshot whose message has these words, and the message. Raises `ValueError` without one."""
        shown = ("--first-parent", "-1", "--format=%H%n%B", "--no-show-signature", "-F", f"--grep={words}", commit)
        found, _, told = call_git(self._git_dir, ["log", *shown])[1].partition(b"\n")
        return found.decode(), json.loads(told)
