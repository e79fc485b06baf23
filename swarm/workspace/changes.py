"""Which changed files of a workspace a snapshot can hold, and which it leaves out, each with its reason."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

BIG_BYTES = 32 << 20
"""A larger file is held in parts: every host that has the workspace would hold each of its versions whole."""
MOST_BYTES = 256 << 20
"""A larger file is left out."""
_IGNORED_BY_HFS = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


@dataclass(frozen=True)
class LeftOut:
    """A file or folder that a snapshot does not hold; it stays in its place, on this host only."""

    path: str
    """Relative to the workspace; a byte that is not UTF-8 is a lone surrogate, as `os.fsdecode` makes it."""
    reason: str


@dataclass
class Changes:
    """Differences from the index: files to add, to remove, and left out. Paths are the file system's bytes."""

    taken: dict[bytes, tuple[int, int] | None] = field(default_factory=dict)
    """Path → size and modification time (ns) when it was seen; None: the file is gone."""
    large: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Files to add in parts: as `taken`."""
    hidden: list[bytes] = field(default_factory=list)
    """Known files that are now a folder, a pipe, or beyond a symbolic link: they no longer belong to the workspace."""
    left_out: dict[bytes, str] = field(default_factory=dict)

    def list_left_out(self) -> list[LeftOut]:
        """The files left out, by path."""
        return [LeftOut(os.fsdecode(path), why) for path, why in sorted(self.left_out.items())]


def sort_changes(tree: Path, paths: Iterable[bytes]) -> Changes:
    """Look at each path that git names as changed or new (a trailing `/`: a repository whose files cannot be listed)."""
    found, root = Changes(), os.fsencode(tree)
    through: dict[bytes, bool] = {b"": False}
    for path in paths:
        if path.endswith(b"/"):
            found.left_out[path.rstrip(b"/")] = "it is a Git repository without files, or one that cannot be read"
        elif (reason := refuse_name(path)) is not None:
            found.left_out[path] = reason
        elif _is_beyond_link(root, os.path.dirname(path), through):
            found.hidden.append(path)
        else:
            _sort_one(root, path, found)
    return found


def look(full: bytes) -> tuple[int, int] | None:
    """Return a path's size and modification time, or None."""
    try:
        seen = os.lstat(full)
    except OSError:
        return None
    return seen.st_size, seen.st_mtime_ns


def is_empty(folder: Path) -> bool:
    """Whether a folder exists, can be read, and holds nothing."""
    try:
        with os.scandir(folder) as found:
            return next(found, None) is None
    except OSError:
        return False


def refuse_name(path: bytes) -> str | None:
    """Why git would not hold a path of that name; None if it does. Some file systems take these names for `.git`."""
    for part in path.split(b"/"):
        name = os.fsdecode(part).translate(_IGNORED_BY_HFS).casefold().partition(":")[0].rstrip(". ")
        if name in (".git", "git~1"):
            return "Git keeps this name for itself"
    return None


def _sort_one(root: bytes, path: bytes, found: Changes) -> None:
    full = os.path.join(root, path)
    try:
        seen = os.lstat(full)
    except OSError:
        found.taken[path] = None
        return
    regular = stat.S_ISREG(seen.st_mode)
    if regular and seen.st_size > MOST_BYTES:
        found.left_out[path] = f"it has {seen.st_size:,} bytes, more than {MOST_BYTES >> 20} MiB"
    elif regular and not os.access(full, os.R_OK):
        found.left_out[path] = "it cannot be read"
    elif stat.S_ISLNK(seen.st_mode) and os.path.basename(path).lower() == b".gitmodules":
        found.left_out[path] = "Git does not hold a link of this name"
    elif not (regular or stat.S_ISLNK(seen.st_mode)):
        found.hidden.append(path)
    else:
        held = found.large if regular and seen.st_size > BIG_BYTES else found.taken
        held[path] = (seen.st_size, seen.st_mtime_ns)


def _is_beyond_link(root: bytes, folder: bytes, through: dict[bytes, bool]) -> bool:
    known = through.get(folder)
    if known is None:
        known = _is_beyond_link(root, os.path.dirname(folder), through) or os.path.islink(os.path.join(root, folder))
        through[folder] = known
    return known
