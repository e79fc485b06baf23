"""Following a job in step with its events: the model of a job as a program has it that waits for the next change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swarm.client import Job, Swarm
from swarm.live.reading import Reader
from swarm.live.state import Patch, Snapshot, fold
from swarm.records import Event


class LiveJob:
    """A job, its agents and open questions, kept as they stand; not thread-safe."""

    def __init__(self, swarm: Swarm, job_id: str) -> None:
        """Raises `UnknownAgent`."""
        self._reader = Reader(swarm.store)
        self.now: Snapshot = self._reader.snapshot(job_id)
        """The job as far as the patches that were taken in tell."""

    def take_in(self, events: Iterable[Event], *, at_work: bool = False) -> Patch:
        """Bring the model up to these events, the next ones of the job; `at_work` as `Reader.patch` has it."""
        patch = self._reader.patch(self.now.job_id, self.now, list(events), at_work=at_work)
        self.now = fold(self.now, patch)
        return patch

    def follow(self, job: Job, *, idle_seconds: float = 1.0) -> Iterator[Patch]:
        """The job's patches as they happen, up to its end; one of those at work whenever nothing has happened for that long."""
        for event in job.follow(after=self.now.events, idle_seconds=idle_seconds):
            yield self.take_in([] if event is None else [event], at_work=event is None)
