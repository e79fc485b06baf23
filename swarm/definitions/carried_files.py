"""Files of a folder that travel with a job: collected where it is submitted, written where it runs."""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from swarm.core.memo import look_at
from swarm.definitions.sources import resolve, show_path


class CarriedFile(BaseModel):
    """One file with its content."""

    model_config = ConfigDict(frozen=True)

    data: str
    """The file's bytes, in base64."""
    executable: bool = False

    def content(self) -> bytes:
        """The bytes; empty for a damaged record."""
        try:
            return base64.b64decode(self.data)
        except (binascii.Error, ValueError):
            return b""


class CarryingLimits(NamedTuple):
    """Bounds of what one folder carries, and the names that never travel."""

    files: int
    file_bytes: int
    bytes: int
    skipped: frozenset[str]
    """Names of folders that are left out without a word."""
    hidden: bool = False
    """Names that begin with a dot travel, too."""


def collect_files(folder: Path, boundary: Path, limits: CarryingLimits) -> tuple[dict[str, CarriedFile], list[str]]:
    """Collect the files of a folder by path below it, and the omitted ones with the reason.

    Links count only if they lead to a file inside `boundary`.
    """
    found: dict[str, CarriedFile] = {}
    left_out: list[str] = []
    room, real = limits.bytes, resolve(boundary)
    for path in _walk(folder, limits):
        name = show_path(path.relative_to(folder))
        look_at(path)
        try:
            status = path.stat()
            if not resolve(path).is_relative_to(real):
                left_out.append(f"{name}: a link to a file outside")
            elif not stat.S_ISREG(status.st_mode):
                left_out.append(f"{name}: no regular file")
            elif len(found) >= limits.files or status.st_size > min(room, limits.file_bytes):
                left_out.append(f"{name}: too large or too many ({status.st_size:,} bytes)")
            else:
                data = path.read_bytes()
                room -= len(data)
                found[name] = CarriedFile(
                    data=base64.b64encode(data).decode("ascii"), executable=bool(status.st_mode & stat.S_IXUSR)
                )
        except OSError as error:
            left_out.append(f"{name}: {error.strerror}")
    return found, left_out[:20]


def _walk(folder: Path, limits: CarryingLimits) -> Iterator[Path]:
    """Yield every file below, sorted; hidden ones, which may hold secrets, only if the limits say so."""

    def shown(name: str) -> bool:
        return (limits.hidden or not name.startswith(".")) and name not in limits.skipped

    for current, folders, names in os.walk(folder):
        look_at(current)
        folders[:] = sorted(filter(shown, folders))
        yield from (Path(current) / name for name in sorted(filter(shown, names)))


def write_files(files: Mapping[str, CarriedFile], folder: Path) -> None:
    """Write all files or none, read-only: a process that dies meanwhile leaves a folder that is never used."""
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    making.chmod(0o755)
    for name, file in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            continue
        target = making / path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.write_bytes(file.content())
        target.chmod(0o555 if file.executable else 0o444)
    try:
        making.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(making, ignore_errors=True)  # another thread was faster
