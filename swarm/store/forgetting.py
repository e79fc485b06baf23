"""Removal of ended jobs before their time, in steps of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from swarm.core.errors import JobOpen
from swarm.core.records import EndState, JobView
from swarm.store.jobs import JobStore
from swarm.store.keyspace import Keyspace, no_job

_PAGE = 500


class Forgetting:
    """Finds ended jobs and forgets them."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace, self._jobs = keyspace, JobStore(keyspace)

    def find(self, states: Sequence[EndState], ended_before: float) -> Iterator[JobView]:
        """Yield the jobs that ended before a time in one of these states (none: in any), newest first in each state."""
        for state in states or get_args(EndState):
            before = ""
            while True:
                job_ids, before = self._jobs.part(_PAGE, state=state, before=before)
                for view in self._jobs.views(job_ids):
                    if view.ended_at is not None and view.ended_at < ended_before:
                        yield view
                if not before:
                    break

    def forget(self, job_id: str) -> None:
        """Remove all records of an ended job. Its objects go next. Raises `UnknownAgent`, `JobOpen`."""
        if not self._jobs.exists(job_id):
            raise no_job(job_id)
        while (answer := self._keyspace.run("forget_job", job_id)[0]) == "more":
            pass
        if answer == "open":
            raise JobOpen(job_id)

    def has_orphans(self) -> bool:
        """Whether there are objects to delete."""
        return any(self._keyspace.run("orphans"))
