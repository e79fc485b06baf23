"""Files as a repository's commits hold them: with the line ends and encodings of its attributes and settings. No filter runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from swarm.core.errors import GitFailed
from swarm.workspace.changes_applied import Change
from swarm.workspace.git_command import call_git
from swarm.workspace.merge import change_tree


def find_lfs_files(store: Path, tree: str, paths: Sequence[str]) -> list[str]:
    """Return the paths whose contents Git LFS keeps elsewhere, by the attributes in a tree. Raises `GitFailed`."""
    with tempfile.TemporaryDirectory(prefix="swarm-attributes-", dir=store) as folder:
        index = Path(folder, "index")
        call_git(store, ["read-tree", tree], index=index)
        asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
        told = call_git(store, ["check-attr", "--cached", "-z", "--stdin", "filter"], index=index, stdin=asked)[1]
    found = os.fsdecode(told).split("\0")
    return [path for path, value in zip(found[::3], found[2::3], strict=False) if value == "lfs"]


def put_files(
    store: Path, raw: Path, tree: str, changes: Sequence[Change], place: str, settings: Mapping[str, str]
) -> str:
    """Return a tree with these changes made to a folder of it, in the form of its repository. Raises `GitFailed`.

    `raw` is a git folder with the objects of the store, which converts nothing; `settings` are those of the repository.
    A file that cannot be converted is put as it is.
    """
    made = change_tree(store, tree, changes, place)
    text = [f"{place}{one.path}" for one in changes if one.new_mode.startswith("100")]
    if not text:
        return made
    listed = b"".join(os.fsencode(path) + b"\0" for path in text)
    with tempfile.TemporaryDirectory(prefix="swarm-clean-", dir=store) as folder:
        index, files = Path(folder, "index"), Path(folder, "files")
        files.mkdir()
        call_git(raw, ["read-tree", made], index=index)
        call_git(raw, ["checkout-index", "-q", "-z", "--stdin"], tree=files, index=index, stdin=listed)
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        # Git leaves the line ends of a file alone that has had both in its index.
        call_git(store, ["read-tree", tree], index=index)
        try:
            update = [*given, "update-index", "-z", "--add", "--replace", "--stdin"]
            call_git(store, update, tree=files, index=index, stdin=listed)
        except GitFailed:
            return made
        clean = call_git(store, ["write-tree"], index=index)[1].decode().strip()
    others = [one for one in changes if not one.new_mode.startswith("100")]
    return change_tree(store, clean, others, place)
