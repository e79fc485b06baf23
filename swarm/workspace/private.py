"""Folders that belong to this user alone, also below one that everybody may write to, such as /tmp."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from pathlib import Path

from swarm.core.errors import ConfigurationError

_MOST_ATTEMPTS = 20


def make_private_folder(folder: Path, *, remedy: str) -> Path:
    """The folder, ours and with mode 0700, made if it is missing; its parent must exist.

    Raises `ConfigurationError`, which ends with the remedy, if it is a link or somebody else's.
    """
    try:
        found = _make(folder)
        if not _is_ours(found):
            raise ConfigurationError(f"{folder} is not a folder of the user {os.geteuid()}. Remove it, or {remedy}.")
        if stat.S_IMODE(found.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise ConfigurationError(f"the private folder {folder} cannot be made ({error.strerror}). {remedy}.") from error
    return folder


def _make(folder: Path) -> os.stat_result:
    """Make the folder if it is missing, also while somebody else removes it."""
    for _ in range(_MOST_ATTEMPTS):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            # lstat: a link planted under /tmp by another user must not lead us elsewhere.
            return folder.lstat()
    return folder.lstat()


def remove_folder(folder: Path) -> None:
    """Remove a folder that processes of an agent have written in, however deep it is and whatever rights they took away."""
    try:
        os.rmdir(folder)  # as it is after most commands
    except OSError:
        # From above, so that each folder can be looked into; by `find`, which goes into any depth.
        for words in (["-type", "d", "!", "-perm", "-700", "-exec", "chmod", "u+rwx", "{}", ";"], ["-delete"]):
            subprocess.run(["find", str(folder), *words], stdin=subprocess.DEVNULL, capture_output=True)


def private_folders(root: Path) -> list[Path]:
    """The folders in `root` that are ours; none if `root` is missing, a link or somebody else's."""
    try:
        if not _is_ours(root.lstat()):
            return []
        with os.scandir(root) as entries:
            return [Path(entry.path) for entry in entries if _is_ours(entry.stat(follow_symlinks=False))]
    except OSError:
        return []


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
