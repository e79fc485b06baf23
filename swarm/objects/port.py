"""The port of object stores."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from pathlib import Path

from swarm.core.errors import ObjectMissing

Content = bytes | Path
"""Content in memory or in a file."""
_OWNER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Objects(ABC):
    """A store of objects. Every method raises `ObjectsAway` while the store cannot be reached, and `ObjectRefused` if it never will."""

    def put(self, owner: str, content: Content) -> str:
        """Store a job's object; returns its digest. When this returns, the object outlives a crash."""
        if isinstance(content, Path):
            with content.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            digest = hashlib.sha256(content).hexdigest()
        self._write(_checked(owner), digest, content)
        return digest

    def get(self, owner: str, digest: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object, or `length` bytes from `offset` on; fewer at its end. Raises `ObjectMissing`."""
        if length == 0:
            return b""
        content = self._read(_checked(owner), _named(digest), offset, length)
        if offset == 0 and length is None and hashlib.sha256(content).hexdigest() != digest:
            raise ObjectMissing(owner, digest, "is damaged")
        return content

    def exists(self, owner: str, digest: str) -> bool:
        """Whether the job has this object."""
        return self._has(_checked(owner), _named(digest))

    def delete(self, owner: str) -> None:
        """Delete all objects of a job; it need not have any."""
        self._remove(_checked(owner))

    def discard(self, owner: str, digest: str) -> None:
        """Delete one object of a job; it need not exist."""
        self._discard(_checked(owner), _named(digest))

    @abstractmethod
    def _write(self, owner: str, digest: str, content: Content) -> None: ...

    @abstractmethod
    def _read(self, owner: str, digest: str, offset: int, length: int | None) -> bytes: ...

    @abstractmethod
    def _has(self, owner: str, digest: str) -> bool: ...

    @abstractmethod
    def _remove(self, owner: str) -> None: ...

    @abstractmethod
    def _discard(self, owner: str, digest: str) -> None: ...


def _checked(owner: str) -> str:
    # Folders are named by it.
    if not _OWNER.fullmatch(owner):
        raise ValueError(f"{owner!r} cannot own objects")
    return owner


def _named(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is not a digest")
    return digest
