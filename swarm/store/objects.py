"""The objects of a swarm's jobs: each goes when its job is forgotten."""

from __future__ import annotations

from swarm.objects.port import Content, Objects
from swarm.store.keyspace import Keyspace


class JobObjects:
    """Objects of jobs. Raises as `Objects` does."""

    def __init__(self, keyspace: Keyspace, objects: Objects) -> None:
        self._keyspace, self._objects = keyspace, objects

    def put(self, job_id: str, content: Content) -> str:
        """Store an object of a job; returns its digest."""
        # First the note, so that a crash leaves nothing that nobody deletes.
        self._keyspace.run("hold_objects", job_id)
        return self._objects.put(job_id, content)

    def get(self, job_id: str, digest: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a part of it. Raises `ObjectMissing`."""
        return self._objects.get(job_id, digest, offset, length)

    def delete_orphans(self) -> int:
        """Delete the objects of some forgotten jobs; returns the number of these jobs."""
        found = self._keyspace.run("orphans")
        for job_id in found:
            self._objects.delete(job_id)
            self._keyspace.run("objects_deleted", job_id)
        return len(found)
