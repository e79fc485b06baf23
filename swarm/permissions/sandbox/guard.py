"""Undoes a command's changes of files that programs outside its sandbox obey.

A held file is renamed in its folder, so nothing is lost, and the earlier file is restored. Every access starts at the workspace's
folder and follows no link. The supervisor of shell commands imports this module without the package, as it does `enter.py`.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from swarm.permissions.sandbox.names import TOLD, lies_in_obeyed, who_obeys
    from swarm.permissions.sandbox.obeyed import HELD, OPEN_FILE, OPEN_FOLDER, ObeyedFolder, exists, look, read_file
else:
    from names import TOLD, lies_in_obeyed, who_obeys
    from obeyed import HELD, OPEN_FILE, OPEN_FOLDER, ObeyedFolder, exists, look, read_file

Own = tuple[tuple[str, str], ...]


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return obeyed files that are new or changed."""
    return sorted(path for path, digest in after.items() if before.get(path) != digest)


def read_contents(root: str, paths: list[str]) -> dict[str, tuple[bytes, int]]:
    """Read content and mode of regular files of a usual size, so that `hold` can restore them."""
    found: dict[str, tuple[bytes, int]] = {}
    for path in paths:
        try:
            with ObeyedFolder(root, os.path.dirname(path)) as folder:
                data, mode = read_file(folder, os.path.basename(path))
                found[path] = data, stat.S_IMODE(mode)
        except (OSError, ValueError):
            continue
    return found


def hold(root: str, before: dict[str, str], contents: dict[str, tuple[bytes, int]], own: Own = ()) -> list[str]:
    """Undo the changes since `before`; returns a line for each, with the finding and the action."""
    lines, told = [], []
    after = look(root, own).digests
    run = {os.path.relpath(path, root) for key, path in own if key == "hook"}
    for path in sorted(before.keys() - after.keys()):
        # A removed settings file or hook may have denied something.
        if path in run or lies_in_obeyed(os.path.dirname(path)):
            try:
                lines += [f"{path} was removed{_put_back(root, path, contents)}"] if path in contents else []
            except OSError:
                pass  # its folder is missing too, or something else has its name
    for path in changed(before, after):
        if path.endswith("/"):
            lines.append(f"{path} could not be looked into")
            continue
        if (who := who_obeys(path)) in TOLD and path not in run:
            # Agents and tools write these files in ordinary work, so their next user is only notified.
            told.append(f"{path} was changed, and stays so: {who} obey it")
            continue
        try:
            lines.append(f"{path} is now {_set_aside(root, path)}" + _put_back(root, path, contents))
        except (OSError, ValueError) as error:
            lines.append(f"{path} is still there ({getattr(error, 'strerror', None) or error})")
    return lines + told


class _Writable:
    """Restores for a moment the user's write permission on a folder, which a command may have removed."""

    def __init__(self, folder: int) -> None:
        self._folder, self._mode = folder, stat.S_IMODE(os.fstat(folder).st_mode)

    def __enter__(self) -> None:
        if self._mode & 0o300 != 0o300:
            os.fchmod(self._folder, self._mode | 0o300)

    def __exit__(self, *failure: object) -> None:
        if self._mode & 0o300 != 0o300:
            os.fchmod(self._folder, self._mode)


def _set_aside(root: str, path: str) -> str:
    name, parent = os.path.basename(path), os.path.dirname(path)
    with ObeyedFolder(root, parent) as folder, _Writable(folder):
        number = 1
        while exists(folder, held := name + HELD + (f"-{number}" if number > 1 else "")):
            number += 1
        os.rename(name, held, src_dir_fd=folder, dst_dir_fd=folder)
    return os.path.join(parent, held)


def _put_back(root: str, path: str, contents: dict[str, tuple[bytes, int]]) -> str:
    if path not in contents:
        return ""
    data, mode = contents[path]
    name = os.path.basename(path)
    with ObeyedFolder(root, os.path.dirname(path)) as folder, _Writable(folder):
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with open(opened, "wb") as file:
            file.write(data)
            os.fchmod(opened, mode)
    return ", and its earlier content is back"


# -- for the time of a command -------------------------------------------------------------------------------


class CommandGuard:
    """A supervisor's checks around one command; `words` are `enter.py`'s, of which it uses `look`, `own`, `had` and `stub`."""

    def __init__(self, words: list[str]) -> None:
        self._before: dict[str, dict[str, str]] = {word[5:]: {} for word in words if word.startswith("look=")}
        self._own: Own = tuple((*word[4:].partition("=")[::2],) for word in words if word.startswith("own="))
        for word in words:
            if word.startswith("had="):
                digest, _, path = word[4:].partition(" ")
                root = max((each for each in self._before if path.startswith(each + "/")), key=len, default=None)
                if root is not None:
                    self._before[root][path[len(root) + 1 :]] = digest
        self._stubs = [word[5:] for word in words if word.startswith("stub=")]
        self._contents: dict[str, dict[str, tuple[bytes, int]]] = {}
        self._kept: list[tuple[int, int]] = []

    def begin(self) -> None:
        """Before the command, keep the contents for a restore and create the stubs for mounts."""
        self._contents = {root: read_contents(root, list(before)) for root, before in self._before.items()}
        for path in self._stubs:
            try:
                self._kept.append(_keep_stub(path))
            except OSError:
                continue  # the command cannot write there either

    def end(self) -> list[str]:
        """After the command, undo forbidden changes and report them."""
        for folder, stub in self._kept:
            _drop_stub(folder, stub)
        lines = []
        for root, before in self._before.items():
            lines += [os.path.join(root, line) for line in hold(root, before, self._contents.get(root, {}), self._own)]
        return lines


def _keep_stub(path: str) -> tuple[int, int]:
    """Create a neutral `commondir`, locked until this process ends.

    Another `commondir` would redirect git to other settings and hooks, and a missing file cannot be mounted over.
    """
    import fcntl

    folder = os.open(path, OPEN_FOLDER)
    own = f"commondir.{os.getpid()}"
    while True:
        made = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
        os.write(made, b".\n")
        os.close(made)
        try:
            os.link(own, "commondir", src_dir_fd=folder, dst_dir_fd=folder)  # never visible without its content
        except FileExistsError:
            pass
        os.unlink(own, dir_fd=folder)
        try:
            stub = os.open("commondir", OPEN_FILE, dir_fd=folder)
        except FileNotFoundError:
            continue
        fcntl.flock(stub, fcntl.LOCK_SH)
        if os.fstat(stub).st_nlink:
            return folder, stub
        os.close(stub)


def _drop_stub(folder: int, stub: int) -> None:
    """Remove a stub, unless another command needs it."""
    import fcntl

    try:
        fcntl.flock(stub, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(stub), os.stat("commondir", dir_fd=folder, follow_symlinks=False)):
            with _Writable(folder):
                os.unlink("commondir", dir_fd=folder)
    except OSError:
        pass  # a remaining stub is harmless
    os.close(stub)
    os.close(folder)
