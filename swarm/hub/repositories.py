"""Repositories on the hub's disk: creation, size limits, and removal."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swarm.hub.backend import run_git
from swarm.hub.requests import BASE, MOST_FOLDERS, RepositoryPlace

SPARE_BYTES = 1 << 30
"""Disk space left free for temporary files and other programs."""
_ASIDE = ".gone-"
_NEW = ".new-"


@dataclass(frozen=True)
class Full:
    """No room for a push."""

    why: str
    for_good: bool
    """Whether the repository's own share is used up; else the hub as a whole is full, which may change."""


@dataclass(frozen=True)
class PushQuota:
    """Bytes that a push may bring."""

    bytes: int


class RepositoryStore:
    """The folder with all repositories, for use by one event loop."""

    def __init__(self, folder: Path, *, job_bytes: int, all_bytes: int) -> None:
        self.folder = folder
        self._job_bytes, self._all_bytes = job_bytes, all_bytes
        self._sizes: dict[RepositoryPlace, int] = {}
        self._making = asyncio.Lock()

    def has(self, place: RepositoryPlace) -> bool:
        """Whether the repository exists."""
        return (place.below(self.folder) / "HEAD").exists()

    async def make(self, place: RepositoryPlace) -> None:
        """Make a missing repository atomically; it borrows from its project's base, if there is one now."""
        if self.has(place):
            return
        async with self._making:
            if self.has(place):
                return
            path = place.below(self.folder)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = path.with_name(f"{_NEW}{secrets.token_hex(8)}")
            words = ("init", "-q", "--bare", "--template=", f"--object-format={place.form}")
            await run_git(*words, str(new), cwd=self.folder)
            base = RepositoryPlace(place.project, BASE)
            if not place.is_base and self.has(base):
                (new / "objects/info").mkdir(exist_ok=True)
                (new / "objects/info/alternates").write_text(f"../../{BASE}.git/objects\n")
                # A base that can be borrowed from is in use.
                self.touch(base)
            new.rename(path)

    def touch(self, place: RepositoryPlace) -> None:
        """Mark a base as used."""
        with suppress(OSError):
            os.utime(place.below(self.folder))

    def take_away(self, place: RepositoryPlace) -> Path:
        """Remove the repository atomically; returns the path to delete from the disk."""
        path = place.below(self.folder)
        aside = path.with_name(f"{_ASIDE}{secrets.token_hex(8)}")
        with suppress(FileNotFoundError):
            path.rename(aside)
        self._sizes.pop(place, None)
        return aside

    # -- room ------------------------------------------------------------------------------------------------

    def room(self, place: RepositoryPlace, *, optional: bool = False) -> PushQuota | Full:
        """How much may be pushed to the repository now. What is `optional` leaves half of a job's room to its work."""
        # A base may be as large as a project, so it has the share of all.
        most = self._all_bytes if place.is_base else self._job_bytes // (2 if optional else 1)
        left = most - self._sizes.get(place, 0)
        if left <= 0:
            return Full(f"{place} holds {_mib(most - left)} of its {_mib(most)} MiB", for_good=True)
        used = sum(self._sizes.values())
        if used >= self._all_bytes:
            return Full(f"the hub holds {_mib(used)} of its {_mib(self._all_bytes)} MiB", for_good=False)
        free = shutil.disk_usage(self.folder).free - SPARE_BYTES
        if free <= 0:
            return Full("the hub's disk is full", for_good=False)
        return PushQuota(min(left, self._all_bytes - used, free))

    def count(self, place: RepositoryPlace, pushed_bytes: int) -> None:
        """Add pushed bytes to the size, until the next exact measurement."""
        self._sizes[place] = self._sizes.get(place, 0) + pushed_bytes

    def note_size(self, place: RepositoryPlace, size: int) -> None:
        """Store a measured size."""
        self._sizes[place] = size

    # -- scanning: blocking, for threads -------------------------------------------------------------------------

    def places(self) -> Iterator[RepositoryPlace]:
        """Yield all existing repositories."""
        for path in self._list_all():
            if path.suffix == ".git":
                yield RepositoryPlace(str(path.parent.relative_to(self.folder)), path.stem)

    def age_seconds(self, place: RepositoryPlace) -> float:
        """Age of a repository; of a base, the time since the last repository that borrows from it was made."""
        path = place.below(self.folder)
        try:
            made = path.stat().st_mtime if place.is_base else (path / "HEAD").stat().st_mtime
        except OSError:
            return 0.0
        return time.time() - made

    def borrowers(self, project: str) -> int:
        """Number of repositories that borrow from the project's base."""
        return sum((path / "objects/info/alternates").exists() for path in _list(self.folder / project))

    def measure(self, place: RepositoryPlace) -> tuple[int, int]:
        """Bytes on the disk, and the number of loose ref files."""
        path, size, refs = place.below(self.folder), 0, 0
        for folder, _, names in os.walk(path):
            if folder.startswith(f"{path}/refs"):
                refs += len(names)
            for name in names:
                with suppress(OSError):
                    size += os.lstat(os.path.join(folder, name)).st_blocks * 512
        return size, refs

    def remove_leftovers(self) -> None:
        """Remove unfinished work of a hub that died. Call this only before requests are served."""
        for path in self._list_all():
            if path.name.startswith((_ASIDE, _NEW)):
                shutil.rmtree(path, ignore_errors=True)

    def _list_all(self) -> Iterator[Path]:
        """Yield every repository, with unfinished and removed ones."""
        folders = [self.folder]
        for _ in range(MOST_FOLDERS + 1):
            found = [path for folder in folders for path in _list(folder)]
            folders = [path for path in found if "." not in path.name]
            yield from (path for path in found if "." in path.name)


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def _mib(size: int) -> int:
    return size >> 20
