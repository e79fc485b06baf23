"""Apply the difference between two trees to a folder without losing concurrent changes.

Guarantee: a file is replaced in one move, and only if it is unchanged since the difference was made; a reader sees the old or the
new content. A process that dies in between leaves each file whole, old or new. Making and applying the difference
again then gives the same result.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swarm.core.errors import ToolError
from swarm.workspace.files import opened_folder, replace_file

LINK, SUBMODULE = "120000", "160000"
EXECUTABLE = "100755"


@dataclass(frozen=True)
class Change:
    """One path in which two trees differ; a mode is empty if the path does not exist."""

    path: str
    old_mode: str
    new_mode: str
    new_id: str = ""
    """The blob's id in git."""
    old_id: str = ""

    @property
    def reversed(self) -> Change:
        """The change back."""
        return Change(self.path, self.new_mode, self.old_mode, self.old_id, self.new_id)


class ChangedMeanwhile(ToolError):
    """Another process changed some of the same files. Files not yet replaced are as they were."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        super().__init__(f"changed meanwhile: {', '.join(self.paths)}")


def seen_times(folder: Path, changes: Sequence[Change]) -> dict[str, int | None]:
    """Return each path's last change (ns), None if it does not exist; taken before comparing with the old tree."""
    return {change.path: _time_of(folder / change.path) for change in changes}


def apply_changes(
    folder: Path,
    changes: Sequence[Change],
    seen: dict[str, int | None],
    content_of: Callable[[Change], Iterable[bytes]],
) -> None:
    """Make each path as in the new tree; `seen` are the times that they must still have.

    Raises `ChangedMeanwhile`, and `ToolError` for a path that cannot be written; earlier paths are changed then.
    """
    # What goes first makes room: a file may take the place of a folder, and a folder that of a file.
    for change in sorted((one for one in changes if not one.new_mode), key=lambda one: one.path, reverse=True):
        _remove(folder, change, seen[change.path])
    for change in changes:
        if change.new_mode and SUBMODULE not in (change.new_mode, change.old_mode):
            _put(folder, change, seen[change.path], content_of(change))


def _time_of(path: Path) -> int | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    # A tree holds no folders: the folder is removed, or the write in its place is refused.
    return None if stat.S_ISDIR(found.st_mode) else found.st_mtime_ns


def _remove(folder: Path, change: Change, seen: int | None) -> None:
    path = folder / change.path
    if change.old_mode == SUBMODULE:
        return
    if _time_of(path) != seen:
        raise ChangedMeanwhile([change.path])
    with opened_folder(folder, path.parent) as parent, contextlib.suppress(FileNotFoundError):
        os.unlink(path.name, dir_fd=parent)
    with contextlib.suppress(OSError):
        # Like git, remove folders that are empty now.
        for above in path.parents:
            if above == folder:
                break
            above.rmdir()


def _put(folder: Path, change: Change, seen: int | None, content: Iterable[bytes]) -> None:
    path = folder / change.path
    was_link = change.old_mode == LINK
    if change.new_mode == LINK or was_link:
        _swap(folder, path, change, seen, content)
        return
    if _time_of(path) != seen:
        raise ChangedMeanwhile([change.path])
    try:
        replace_file(folder, path, content, seen_mtime_ns=seen, durable=False)
    except ToolError as error:
        raise (error if _time_of(path) == seen else ChangedMeanwhile([change.path])) from error
    if (change.new_mode == EXECUTABLE) != (change.old_mode == EXECUTABLE):
        with opened_folder(folder, path.parent) as parent:
            mode = stat.S_IMODE(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode)
            executable = mode | (mode & 0o444) >> 2 if change.new_mode == EXECUTABLE else mode & ~0o111
            os.chmod(path.name, executable, dir_fd=parent)


def _swap(folder: Path, path: Path, change: Change, seen: int | None, content: Iterable[bytes]) -> None:
    """Put a link in the place of anything, or a file in the place of a link."""
    temporary = f".swarm-{secrets.token_hex(8)}.tmp"
    with opened_folder(folder, path.parent, create=True) as parent:
        if change.new_mode == LINK:
            os.symlink(os.fsdecode(b"".join(content)), temporary, dir_fd=parent)
        else:
            mode = 0o777 if change.new_mode == EXECUTABLE else 0o666
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=parent), "wb") as file:
                file.writelines(content)
        if _time_of(path) != seen:
            os.unlink(temporary, dir_fd=parent)
            raise ChangedMeanwhile([change.path])
        os.replace(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
