"""Objects in a folder, for all processes of a host, and for all hosts that share the file system."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swarm.core.errors import ObjectMissing, ObjectRefused, ObjectsAway
from swarm.objects.port import Content, Objects

_NEW = ".new-"


class FolderObjects(Objects):
    """Objects as files `OWNER/DIGEST`, which only their user can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _write(self, owner: str, digest: str, content: Content) -> None:
        folder = self._folder / owner
        with self._explained():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(folder / digest) as new:
                if isinstance(content, Path):
                    shutil.copyfile(content, new)
                else:
                    new.write_bytes(content)

    def _read(self, owner: str, digest: str, offset: int, length: int | None) -> bytes:
        try:
            with self._explained(), (self._folder / owner / digest).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except FileNotFoundError as error:
            raise ObjectMissing(owner, digest, f"is not in {self._folder}") from error

    def _has(self, owner: str, digest: str) -> bool:
        return (self._folder / owner / digest).exists()

    def _remove(self, owner: str) -> None:
        folder = self._folder / owner
        with self._explained():
            while folder.exists():  # a process that was about to store one more object may do so meanwhile
                shutil.rmtree(folder, onerror=_skip_changed)

    def _discard(self, owner: str, digest: str) -> None:
        with self._explained():
            (self._folder / owner / digest).unlink(missing_ok=True)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except (PermissionError, NotADirectoryError, FileExistsError) as error:
            raise ObjectRefused(f"{self._folder}: {error.strerror}; let the workers' user write there") from error
        except OSError as error:
            raise ObjectsAway(f"{self._folder}: {error.strerror or error}") from error


def _skip_changed(function: Any, path: str, failure: Any) -> None:
    # Another process may delete or store single objects meanwhile.
    if failure[1].errno not in (errno.ENOENT, errno.ENOTEMPTY):
        raise failure[1]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that becomes `path` atomically, and outlives a crash, if the block does not raise."""
    new = path.with_name(f"{_NEW}{secrets.token_hex(8)}")
    try:
        yield new
        new.chmod(0o600)
        _sync(new)
        new.rename(path)
        _sync(path.parent)
    finally:
        new.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
