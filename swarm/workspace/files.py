"""Open and replace files of a workspace without following a link that appears between the check and the use.

Guarantee: a walk goes from the workspace's own folder down, one component at a time, each relative to the open folder
before it and none through a link. So a process that swaps a folder for a link gets an error, never a file outside.
A replacement is atomic (a reader sees the old or the new content) and, among agents on one host, exclusive: the
check that the file is still as it was seen and the rename happen under one lock on the folder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from swarm.core.errors import ToolError
from swarm.workspace.paths import shown

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_SECONDS = 5.0


def _failure(verb: str, workspace: Path, path: Path, error: OSError) -> ToolError:
    name = shown(workspace, path)
    match error.errno:
        case errno.ENOENT:
            return ToolError(f"{name} does not exist")
        case errno.ELOOP:
            return ToolError(f"{name} turned into a symbolic link while it was opened; look again with LS")
        case errno.ENOTDIR:
            return ToolError(f"cannot {verb} {name}: a part of its path is not a folder")
        case _:
            return ToolError(f"cannot {verb} {name}: {error.strerror or error}")


@contextlib.contextmanager
def _opened_folder(workspace: Path, folder: Path, *, create: bool = False) -> Iterator[int]:
    """Open `folder` without following links; make missing folders if `create`."""
    # The workspace's own path comes from the runtime, not the model: only this path may contain links.
    current = os.open(workspace, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in folder.relative_to(workspace).parts:
            try:
                deeper = os.open(part, _FOLDER, dir_fd=current)
            except FileNotFoundError:
                if not create:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
                deeper = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


@contextlib.contextmanager
def opened_folder(workspace: Path, folder: Path, *, create: bool = False) -> Iterator[int]:
    """Open the resolved `folder`, to work in it even if its path changes meanwhile. Raises `ToolError`."""
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(_opened_folder(workspace, folder, create=create))
        except OSError as error:
            raise _failure("open", workspace, folder, error) from error
        yield opened


def open_file(workspace: Path, path: Path) -> tuple[int, os.stat_result]:
    """Open a regular file, the resolved `path`, for reading; the caller closes the descriptor. Raises `ToolError`."""
    try:
        with _opened_folder(workspace, path.parent) as folder:
            # Without O_NONBLOCK, opening a named pipe would wait for a writer for ever.
            opened = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise _failure("open", workspace, path, error) from error
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        os.close(opened)
        raise ToolError(f"{shown(workspace, path)} is not a regular file")
    return opened, status


@contextlib.contextmanager
def _locked(folder: int, name: str) -> Iterator[None]:
    give_up = time.monotonic() + _LOCK_SECONDS
    held = False
    while not held:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise ToolError(f"another process holds the folder of {name} locked; try again later") from None
            time.sleep(0.01)
        except OSError:
            break  # a file system without locks: the check below still runs, only a few microseconds apart
    try:
        yield
    finally:
        if held:
            fcntl.flock(folder, fcntl.LOCK_UN)


def replace_file(
    workspace: Path, path: Path, content: bytes | Iterable[bytes], *, seen_mtime_ns: int | None, durable: bool = True
) -> int:
    """Write `content`, which may come in chunks, at the resolved `path`; return its mtime in ns; `durable`: it is on the disk then.

    `seen_mtime_ns` is the required mtime of the file; None requires that no file exists. Keeps the mode and,
    where allowed, the owner of a file that is replaced. Raises `ToolError`, leaving everything as it was.
    """
    name = shown(workspace, path)
    try:
        with _opened_folder(workspace, path.parent, create=True) as folder, _locked(folder, name):
            before = _status(folder, path.name)
            _require_unchanged(name, before, seen_mtime_ns)
            chunks = [content] if isinstance(content, bytes) else content
            return _swap_in(folder, path.name, chunks, before, durable=durable)
    except OSError as error:
        raise _failure("write", workspace, path, error) from error


def require_unchanged(workspace: Path, path: Path, seen_mtime_ns: int | None) -> None:
    """Raise the `ToolError` that `replace_file` would raise now; changes nothing."""
    try:
        before = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        before = None
    except OSError as error:
        raise _failure("write", workspace, path, error) from error
    _require_unchanged(shown(workspace, path), before, seen_mtime_ns)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _require_unchanged(name: str, before: os.stat_result | None, seen_mtime_ns: int | None) -> None:
    if before is None:
        if seen_mtime_ns is not None:
            raise ToolError(f"{name} has been deleted since you read it; create it again with Write if needed")
        return
    if not stat.S_ISREG(before.st_mode):
        raise ToolError(f"{name} is not a regular file")
    if seen_mtime_ns is None:
        raise ToolError(f"{name} exists and you have not read it; Read it first, so that no unseen text is lost")
    if before.st_mtime_ns != seen_mtime_ns:
        raise ToolError(f"{name} has changed since you read it; Read it again, then repeat the change")


def _swap_in(folder: int, name: str, content: Iterable[bytes], before: os.stat_result | None, *, durable: bool) -> int:
    temporary = f".swarm-{secrets.token_hex(8)}.tmp"
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with open(opened, "wb") as file:
            file.writelines(content)
            file.flush()
            if before is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(opened, before.st_uid, before.st_gid)
                os.fchmod(opened, stat.S_IMODE(before.st_mode))
            if durable:
                os.fsync(opened)
            written = os.fstat(opened).st_mtime_ns
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return written
