"""Compares the fleet with this release: what older workers leave to others, in which order to upgrade, and what open jobs need."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel

from swarm.agent.needs import Has, Needs
from swarm.core.records import TERMINAL_STATES
from swarm.core.release import FORMAT, VERSION

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm

_JOBS_AT_ONCE = 200


class WorkerRelease(BaseModel, frozen=True):
    """One worker's release, beside this one."""

    worker: str
    node: str
    """The worker's name in Celery."""
    host: str
    version: str
    format: int
    """The newest format that it reads."""
    leaves_agents: int = 0
    """Open agents of newer formats, which it leaves to others."""
    leaves_jobs: int = 0
    """Jobs of those agents."""
    older: bool
    """The worker must be upgraded to this release."""
    newer: bool
    """The worker has a newer release than this one."""


class Upgrade(BaseModel, frozen=True):
    """The state of an upgrade to this release."""

    version: str = VERSION
    format: int = FORMAT
    workers: list[WorkerRelease]
    """All live workers, in the order in which to upgrade them."""
    unread: dict[str, int]
    """Open jobs with agents of a format that no worker reads, and that format."""

    @property
    def order(self) -> list[WorkerRelease]:
        """The workers to upgrade, one after the other."""
        return [worker for worker in self.workers if worker.older]

    @property
    def done(self) -> bool:
        """Every worker has this release, and open jobs need no other."""
        return not self.unread and all(worker.version == self.version for worker in self.workers)


def check_upgrade(swarm: Swarm) -> Upgrade:
    """Compare the swarm's workers and the agents of its open jobs with this release."""
    return compare_releases(swarm.fleet(), open_formats(swarm))


def compare_releases(fleet: Mapping[str, Has], jobs: Mapping[str, Mapping[int, int]]) -> Upgrade:
    """Compare workers with this release; `jobs` holds the number of open agents of each job by format. Pure."""
    workers = [_describe(worker, has, jobs) for worker, has in fleet.items()]
    workers.sort(key=lambda one: (one.format, _order(one.version), one.host, one.worker))
    # Without workers, those of this release count: they are started next.
    reads = max((has.format for has in fleet.values()), default=FORMAT)
    unread = {job: max(formats) for job, formats in jobs.items() if formats and max(formats) > reads}
    return Upgrade(workers=workers, unread=unread)


def open_formats(swarm: Swarm) -> dict[str, dict[int, int]]:
    """Count the open agents of each open job by format."""
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    before, more = "", True
    while more:
        jobs, before = swarm.store.jobs.part(_JOBS_AT_ONCE, state="running", before=before)
        for job in jobs:
            records = swarm.store.agents.records(swarm.store.agents.ids([job]), ["state", "wants"])
            found[job].update(_formats(records))
        more = bool(before)
    return {job: dict(counted) for job, counted in found.items()}


def _formats(records: Iterable[Mapping[str, str | None]]) -> Iterable[int]:
    for record in records:
        if record["state"] and record["state"] not in TERMINAL_STATES:
            yield Needs(wants=tuple((record["wants"] or "").split())).format


def _describe(worker: str, has: Has, jobs: Mapping[str, Mapping[int, int]]) -> WorkerRelease:
    left = [sum(count for number, count in formats.items() if number > has.format) for formats in jobs.values()]
    place, here = (has.format, _order(has.version)), (FORMAT, _order(VERSION))
    return WorkerRelease(
        worker=worker,
        node=has.node,
        host=has.host,
        version=has.version or "unknown",
        format=has.format,
        leaves_agents=sum(left),
        leaves_jobs=sum(map(bool, left)),
        older=place < here,
        newer=place > here,
    )


def _order(version: str) -> Version:
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")
