"""Maintenance of a hub: it measures its repositories, and removes those of expired jobs.

The hub itself asks whether a job still exists. A worker would need permission to delete, would miss jobs that expire while the hub is
down, and may not exist. A job's key expires with the job, so a repository without a key is useless, unless this is another Redis or one
that has lost its data. So the hub and its Redis both keep a mark. If the mark in Redis differs or is missing, nothing is removed.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from swarm.core.log import EventLog
from swarm.hub.backend import run_git
from swarm.hub.repositories import RepositoryStore
from swarm.hub.requests import RepositoryPlace
from swarm.store.outage import REDIS_ERRORS
from swarm.store.store import Store

log = EventLog("swarm.hub")
EVERY_SECONDS = 60.0
YOUNG_SECONDS = 3_600.0
"""Age below which repositories are not checked, because a first snapshot is pushed before its job exists."""
_MANY_REFS = 256
"""Number of loose refs at which they are packed: a push lists them all, and reads a file for each."""
_ASKED_AT_ONCE = 500


class Jobs:
    """The jobs that the hub's Redis knows."""

    def __init__(self, store: Store, mark_file: Path) -> None:
        self._store, self._mark_file = store, mark_file

    def is_ours(self) -> bool:
        """Whether this is the Redis that the hub has known from the start; the first call marks both."""
        if not self._mark_file.exists():
            self._mark_file.write_text(self._store.fleet.hub_mark(make=True))
        return self._store.fleet.hub_mark() == self._mark_file.read_text()

    def unknown(self, names: list[str]) -> list[str]:
        """Names that are not, or no longer, jobs."""
        found = []
        for start in range(0, len(names), _ASKED_AT_ONCE):
            found += self._store.jobs.missing(names[start : start + _ASKED_AT_ONCE])
        return found


class HubMaintenance:
    """Checks all repositories periodically."""

    def __init__(
        self, repositories: RepositoryStore, jobs: Jobs | None, *, retention_seconds: float, young_seconds: float
    ) -> None:
        self._repositories, self._jobs = repositories, jobs
        self._retention_seconds, self._young_seconds = retention_seconds, young_seconds

    async def run(self, every_seconds: float) -> None:
        """Check the repositories every `every_seconds`, until cancelled."""
        while True:
            try:
                await self.look()
            except REDIS_ERRORS as error:
                log.warning("hub.upkeep_failed", error=error)
            await asyncio.sleep(every_seconds)

    async def look(self) -> None:
        """Measure every repository, remove unneeded ones, and pack refs where there are many."""
        places = await asyncio.to_thread(lambda: list(self._repositories.places()))
        for place in places:
            size, refs = await asyncio.to_thread(self._repositories.measure, place)
            self._repositories.note_size(place, size)
            if refs > _MANY_REFS:
                await run_git("pack-refs", "--all", cwd=place.below(self._repositories.folder))
        for place in await asyncio.to_thread(self._find_useless, places):
            # The renaming happens between two requests, the rest beside them.
            if not place.is_base or not self._repositories.borrowers(place.project):
                left = self._repositories.take_away(place)
                log.info("hub.removed", repository=place)
                await asyncio.to_thread(shutil.rmtree, left, True)

    def _find_useless(self, places: list[RepositoryPlace]) -> list[RepositoryPlace]:
        if self._jobs is None:
            return []
        if not self._jobs.is_ours():
            log.warning("hub.other_redis", effect="nothing is removed", remedy="see docs/files.md, “Another Redis”")
            return []
        old = [one for one in places if not one.is_base and self._repositories.age_seconds(one) > self._young_seconds]
        gone = set(self._jobs.unknown([one.name for one in old]))
        # A base that has not been borrowed for a job's retention can go: the next job pushes it again.
        bases = [one for one in places if one.is_base and self._repositories.age_seconds(one) > self._retention_seconds]
        return [one for one in old if one.name in gone] + bases
