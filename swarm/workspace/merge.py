"""Merge another agent's changes of the same files, and describe conflicts.

Nothing here touches a folder: a merge of two commits is a tree. The same two commits give the same tree, anywhere, at any time.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swarm.workspace.changes_applied import SUBMODULE, Change
from swarm.workspace.git_command import call_git, write_object

Strategy = Literal["merge", "ours", "theirs", "none"]
_BASE, _OURS, _THEIRS = "1", "2", "3"
_SHOWN_FILES, _SHOWN_HUNKS, _SHOWN_LINES, _SHOWN_CHARACTERS = 20, 6, 40, 300
_HUNK = re.compile(r"^<<<<<<< .*?^>>>>>>> [^\n]*$", re.MULTILINE | re.DOTALL)
_LOOKED_FOR_NUL = 8_000
_ASIDE = re.compile(r"~(yours|theirs)_[0-9a-f]{12}(_\d+)?$")
"""Git's addition to a name whose place the other side has taken."""


@dataclass(frozen=True)
class Conflict:
    """A path that both sides changed, each in its own way."""

    path: str
    """The path in the merged tree: under another name if the other side has a folder or a link in its place."""
    sides: dict[str, tuple[str, str]]
    """Stage (1: before, 2: ours, 3: theirs) → mode and blob; a stage may be missing."""

    @property
    def place(self) -> str:
        """The path that the side which has it calls it by."""
        return _ASIDE.sub("", self.path)

    @property
    def what(self) -> str:
        """Say how the two sides differ, to the owner of ours."""
        if self.place != self.path:
            mine, other = ("you", "the agent") if _OURS in self.sides else ("the agent", "you")
            return f"it is a file or link that {mine} made, and a folder or something else that {other} made"
        match _OURS in self.sides, _THEIRS in self.sides, _BASE in self.sides:
            case True, True, True:
                return "both changed it"
            case True, True, False:
                return "both added it"
            case True, False, _:
                return "you changed it, the agent deleted or moved it"
            case False, True, _:
                return "you deleted or moved it, the agent changed it"
        return "both moved it"


@dataclass(frozen=True)
class MergeResult:
    """Two commits merged; with conflicts, the tree holds their markers."""

    tree: str
    conflicts: tuple[Conflict, ...] = ()


def merge_commits(git_dir: Path, ours: str, theirs: str) -> MergeResult:
    """Merge two commits that the git folder has. Raises `GitFailed`."""
    return _merge(git_dir, ours, theirs, (ours, theirs))


def merge_trees(git_dir: Path, base: str, ours: str, theirs: str) -> MergeResult:
    """Merge the changes from the tree of `base` to that of `theirs` into that of `ours`, whatever their histories. Raises `GitFailed`."""

    def commit(tree: str, *parents: str) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        return call_git(git_dir, ["commit-tree", f"{tree}^{{tree}}", *words, "-m", "x"])[1].decode().strip()

    began = commit(base)
    return _merge(git_dir, commit(ours, began), commit(theirs, began), (ours, theirs))


def _merge(git_dir: Path, ours: str, theirs: str, called: tuple[str, str]) -> MergeResult:
    # Names appear beside the markers. Others may merge here at the same time, so a name always means the same files.
    sides = [f"{side}/{name[:12]}" for side, name in zip(("yours", "theirs"), called, strict=True)]
    for name, commit in zip(sides, (ours, theirs), strict=True):
        call_git(git_dir, ["update-ref", f"refs/heads/{name}", commit])
    command = ["merge-tree", "--write-tree", "-z", "--no-messages", "--allow-unrelated-histories", *sides]
    code, printed = call_git(git_dir, command, accept=(0, 1))
    tree, *rest = printed.decode("utf-8", "surrogateescape").split("\0")
    if code == 0:
        return MergeResult(tree)
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in filter(None, rest):
        about, _, path = line.partition("\t")
        mode, blob, stage = about.split(" ")
        found.setdefault(path, {})[stage] = (mode, blob)
    return MergeResult(tree, tuple(Conflict(path, stages) for path, stages in found.items()))


def resolve(git_dir: Path, merge: MergeResult, strategy: Literal["ours", "theirs"]) -> str:
    """Return the tree of a merge with each conflict resolved to that side; other changes are merged. Raises `GitFailed`."""
    side = _OURS if strategy == "ours" else _THEIRS
    changes = []
    for conflict in merge.conflicts:
        changes.append(Change(conflict.path, "", ""))
        if side not in conflict.sides:
            continue
        mode, blob = conflict.sides[side]
        if len(conflict.sides) == 3 and len({mode for mode, _ in conflict.sides.values()}) == 1:
            blob = _merge_file(git_dir, conflict, strategy) or blob
        changes.append(Change(conflict.place, "", mode, blob))
    return change_tree(git_dir, merge.tree, changes)


def find_unmarked(git_dir: Path, merge: MergeResult) -> list[Conflict]:
    """Return the conflicts that markers in a file cannot show: of binary files, links, deleted or moved files, folders."""
    return [one for one in merge.conflicts if not _is_marked(git_dir, one)]


def put_beside(git_dir: Path, merge: MergeResult) -> tuple[str, dict[str, str]]:
    """Return the tree with both versions of each conflict, between markers or beside each other, and path → place of theirs."""
    both = [one for one in find_unmarked(git_dir, merge) if {_OURS, _THEIRS} <= one.sides.keys()]
    beside = {one.path: f"{one.path}~theirs" for one in both}
    added = [Change(beside[one.path], "", *one.sides[_THEIRS]) for one in both]
    return change_tree(git_dir, merge.tree, added) if added else merge.tree, beside


def _is_marked(git_dir: Path, conflict: Conflict) -> bool:
    both = [conflict.sides[side] for side in (_OURS, _THEIRS) if side in conflict.sides]
    if len(both) < 2 or conflict.place != conflict.path or any(not mode.startswith("100") for mode, _ in both):
        return False
    return not any(_is_binary(read_blob(git_dir, blob)) for _, blob in both)


def change_tree(git_dir: Path, tree: str, changes: Iterable[Change], place: str = "") -> str:
    """Return a tree with these changes made to a folder of it, which is empty or ends with `/`. Raises `GitFailed`."""
    # Removals make room for a file in the place of a folder, and the other way round.
    lines = "".join(
        f"{one.new_mode or 0} {one.new_id if one.new_mode else '0' * len(tree)}\t{place}{one.path}\0"
        for one in sorted(changes, key=lambda one: bool(one.new_mode))
    )
    with tempfile.TemporaryDirectory(prefix="swarm-index-", dir=git_dir) as folder:
        index = Path(folder, "index")
        call_git(git_dir, ["read-tree", tree], index=index)
        given = lines.encode("utf-8", "surrogateescape")
        call_git(git_dir, ["update-index", "-z", "--replace", "--index-info"], stdin=given, index=index)
        return call_git(git_dir, ["write-tree"], index=index)[1].decode().strip()


def leave_out(git_dir: Path, tree: str, changes: Iterable[Change]) -> str:
    """Return the tree without these changes: their paths are as before. Raises `GitFailed`."""
    return change_tree(git_dir, tree, [one.reversed for one in changes])


def _merge_file(git_dir: Path, conflict: Conflict, strategy: str) -> str | None:
    """Merge a file, with only its conflicts resolved to that side; None if it has no lines."""
    with tempfile.TemporaryDirectory(prefix="swarm-merge-") as folder:
        for stage, (_, blob) in conflict.sides.items():
            content = read_blob(git_dir, blob)
            if _is_binary(content):
                return None
            Path(folder, stage).write_bytes(content)
        files = [f"{folder}/{stage}" for stage in (_OURS, _BASE, _THEIRS)]
        merged = call_git(git_dir, ["merge-file", "-p", "-q", f"--{strategy}", *files])[1]
    return write_object(git_dir, "blob", merged)


def read_blob(git_dir: Path, blob: str) -> bytes:
    """The content of a blob."""
    return call_git(git_dir, ["cat-file", "blob", blob])[1]


def find_base(git_dir: Path, ours: str, theirs: str) -> str:
    """Return the common ancestor of both commits; empty without one."""
    return call_git(git_dir, ["merge-base", ours, theirs], accept=(0, 1))[1].decode().strip()


def list_changes(git_dir: Path, old: str, new: str) -> list[Change]:
    """List the differences of two trees (or commits), by path."""
    printed = call_git(git_dir, ["diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", old, new])[1]
    parts = iter(printed.decode("utf-8", "surrogateescape").split("\0"))
    changes = []
    for about in parts:
        if not about:
            break
        old_mode, new_mode, old_id, new_id, _ = about.removeprefix(":").split(" ")
        old_mode, new_mode = old_mode.strip("0") and old_mode, new_mode.strip("0") and new_mode
        changes.append(Change(next(parts), old_mode, new_mode, new_id, old_id))
    return changes


# -- in words -----------------------------------------------------------------------------------------------


def describe_conflicts(git_dir: Path, merge: MergeResult) -> str:
    """Describe both sides' changes of each path, cut to a length for a conversation."""
    shown = [_describe(git_dir, merge.tree, conflict) for conflict in merge.conflicts[:_SHOWN_FILES]]
    more = [f"{one.path}: {one.what}" for one in merge.conflicts[_SHOWN_FILES:]]
    return "\n\n".join([*shown, *(["\n".join(more)] if more else [])])


def _describe(git_dir: Path, tree: str, conflict: Conflict) -> str:
    head = f"{conflict.path}: {conflict.what}"
    modes = [mode for mode, _ in conflict.sides.values()]
    if SUBMODULE in modes or not {_OURS, _THEIRS} <= conflict.sides.keys():
        return head
    listed = call_git(git_dir, ["ls-tree", "-z", tree, "--", conflict.path])[1].decode("utf-8", "surrogateescape")
    if not listed:
        return head
    content = read_blob(git_dir, listed.split("\t")[0].split(" ")[2])
    if _is_binary(content):
        return f"{head} (it is binary)"
    hunks = _HUNK.findall(content.decode("utf-8", "replace"))
    shown = [_cut(hunk.splitlines()) for hunk in hunks[:_SHOWN_HUNKS]]
    if len(hunks) > len(shown):
        shown.append(f"… and {len(hunks) - len(shown)} more places")
    return "\n".join([head, *shown])


def _cut(lines: Sequence[str]) -> str:
    left_out = len(lines) - _SHOWN_LINES
    if left_out > 0:
        half = _SHOWN_LINES // 2
        lines = [*lines[:half], f"… {left_out} lines …", *lines[-half:]]
    return "\n".join(line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…" for line in lines)


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:_LOOKED_FOR_NUL]
