"""The objects of a swarm's jobs: each goes when its job is forgotten, or when nothing refers to it any more."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from swarm.objects.port import Content, Objects
from swarm.store.keyspace import Keyspace


class JobObjects:
    """Objects of jobs. Raises as `Objects` does."""

    def __init__(self, keyspace: Keyspace, objects: Objects) -> None:
        self._keyspace, self._objects = keyspace, objects

    def put(self, job_id: str, content: Content) -> str:
        """Store an object of a job; returns its digest."""
        # First the note, so that a crash leaves nothing that is never deleted.
        self._keyspace.run("hold_objects", job_id, "")
        return self._objects.put(job_id, content)

    def put_loose(self, job_id: str, content: bytes) -> str:
        """Store an object that no other output refers to; returns its address `JOB/DIGEST`. An hour later it is deleted if none does."""
        address = f"{job_id}/{hashlib.sha256(content).hexdigest()}"
        self._keyspace.run("hold_objects", job_id, address)
        self._objects.put(job_id, content)
        return address

    def get(self, job_id: str, digest: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a part of it. Raises `ObjectMissing`."""
        return self._objects.get(job_id, digest, offset, length)

    def delete(self, addresses: Iterable[str]) -> None:
        """Delete single objects to which nothing refers."""
        for address in addresses:
            self._objects.discard(*address.split("/"))
            self._keyspace.run("objects_deleted", address)

    def delete_orphans(self) -> int:
        """Delete the objects of some forgotten jobs, and some to which nothing refers; returns the number of both."""
        forgotten, loose = self._keyspace.run("orphans")
        for job_id in forgotten:
            self._objects.delete(job_id)
            self._keyspace.run("objects_deleted", job_id)
        self.delete(loose)
        return len(forgotten) + len(loose)
