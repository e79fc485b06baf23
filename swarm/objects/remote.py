"""Objects in S3, or in another store that `obstore` knows, by URL.

The library's threads do not outlive a fork, so a process that forks workers must not use this itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from swarm.core.errors import ConfigurationError, ObjectMissing, ObjectRefused, ObjectsAway
from swarm.objects.port import Content, Objects

_used_by = 0
"""The process that uses the library, and must not have been forked from one that did."""


class RemoteObjects(Objects):
    """Objects with the keys `OWNER/DIGEST` below a URL; credentials are those of the environment."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _write(self, owner: str, digest: str, content: Content) -> None:
        with self._explained(owner, digest):
            self._library.put(self._store, f"{owner}/{digest}", content)

    def _read(self, owner: str, digest: str, offset: int, length: int | None) -> bytes:
        path = f"{owner}/{digest}"
        with self._explained(owner, digest):
            if offset == 0 and length is None:
                return bytes(self._library.get(self._store, path).bytes())
            size = self._library.head(self._store, path)["size"]
            end = size if length is None else min(size, offset + length)
            # Stores refuse an empty range.
            return bytes(self._library.get_range(self._store, path, start=offset, end=end)) if offset < end else b""

    def _has(self, owner: str, digest: str) -> bool:
        try:
            with self._explained(owner, digest):
                self._library.head(self._store, f"{owner}/{digest}")
        except ObjectMissing:
            return False
        return True

    def _remove(self, owner: str) -> None:
        with self._explained(owner, ""):
            for part in self._library.list(self._store, f"{owner}/", chunk_size=1000):
                self._library.delete(self._store, [each["path"] for each in part])

    def _discard(self, owner: str, digest: str) -> None:
        with suppress(ObjectMissing), self._explained(owner, digest):
            self._library.delete(self._store, f"{owner}/{digest}")

    @cached_property
    def _library(self) -> Any:
        try:
            import obstore
            import obstore.exceptions
            import obstore.store
        except ImportError as error:
            raise ConfigurationError(
                "SWARM_OBJECTS is a URL, which needs a package: pip install 'celery-swarm[objects]'"
            ) from error
        return obstore

    @cached_property
    def _store(self) -> Any:
        try:
            # An endpoint without TLS was set on purpose.
            options = {"connect_timeout": "10s", "timeout": "120s", "allow_http": True}
            return self._library.store.from_url(self._url, client_options=options)
        except (self._library.exceptions.BaseError, ValueError) as error:
            raise ConfigurationError(f"SWARM_OBJECTS cannot be used: {_first_line(error)}") from error

    @contextmanager
    def _explained(self, owner: str, digest: str) -> Iterator[None]:
        global _used_by
        if _used_by not in (0, os.getpid()):
            raise ObjectsAway(f"{self._url} was opened before this process was forked")
        _used_by, known = os.getpid(), self._library.exceptions
        try:
            yield
        except (known.NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(owner, digest, f"is not in {self._url}") from error
        except (known.PermissionDeniedError, known.UnauthenticatedError) as error:
            raise ObjectRefused(
                f"{self._url} refuses the credentials of the environment: {_first_line(error)}"
            ) from error
        except known.BaseError as error:
            raise ObjectsAway(f"{self._url}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300]
