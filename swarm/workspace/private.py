"""Folders that belong to this user alone, also below one that all users may write to, such as /tmp."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from pathlib import Path

from swarm.core.errors import ConfigurationError

_MOST_ATTEMPTS = 20


def make_private_folder(folder: Path, *, remedy: str) -> Path:
    """Return the folder, owned by this user and with mode 0700; make it if missing. Its parent must exist.

    Raises `ConfigurationError`, which ends with the remedy, if it is a link or another user's.
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
    """Make the folder if it is missing, also while another process removes it."""
    for _ in range(_MOST_ATTEMPTS):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            # lstat: a link planted under /tmp by another user must not lead us elsewhere.
            return folder.lstat()
    return folder.lstat()


def remove_folder(folder: Path) -> None:
    """Remove a folder that an agent's processes wrote in, at any depth and with any permissions."""
    try:
        os.rmdir(folder)  # most commands leave it empty
    except OSError:
        # From above, so that each folder can be looked into; by `find`, which goes into any depth.
        for words in (["-type", "d", "!", "-perm", "-700", "-exec", "chmod", "u+rwx", "{}", ";"], ["-delete"]):
            subprocess.run(["find", str(folder), *words], stdin=subprocess.DEVNULL, capture_output=True)


def private_folders(root: Path) -> list[Path]:
    """Return this user's folders in `root`; none if `root` is missing, a link or another user's."""
    try:
        if not _is_ours(root.lstat()):
            return []
        with os.scandir(root) as entries:
            return [Path(entry.path) for entry in entries if _is_ours(entry.stat(follow_symlinks=False))]
    except OSError:
        return []


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
