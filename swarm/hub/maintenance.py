"""What a hub does beside serving: it measures its repositories, and removes those of jobs that Redis has forgotten.

The hub itself asks whether a job still exists. A worker would have to be trusted with deleting, would forget what expired while the hub
was away, and there may be none. A job's key expires with the job, so a repository without one is of no use to anybody; unless this is not
the Redis that the jobs are in, or it has lost them all. So the hub and its Redis know each other by a mark that both keep, and where
Redis has another mark or none nothing is removed.
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
"""The first snapshot is pushed before its job is known: so long nobody asks for it."""
_MANY_REFS = 256
"""A push lists them all, and reads each that is a file of its own."""
_ASKED_AT_ONCE = 500


class Jobs:
    """Which jobs the hub's Redis knows."""

    def __init__(self, store: Store, mark_file: Path) -> None:
        self._store, self._mark_file = store, mark_file

    def is_ours(self) -> bool:
        """Whether this is the Redis that the hub has known from the start; the two are made known to each other once."""
        if not self._mark_file.exists():
            self._mark_file.write_text(self._store.fleet.hub_mark(make=True))
        return self._store.fleet.hub_mark() == self._mark_file.read_text()

    def unknown(self, names: list[str]) -> list[str]:
        """Those of these that are no jobs, or no more."""
        found = []
        for start in range(0, len(names), _ASKED_AT_ONCE):
            found += self._store.jobs.missing(names[start : start + _ASKED_AT_ONCE])
        return found


class HubMaintenance:
    """Looks through all repositories, again and again."""

    def __init__(
        self, repositories: RepositoryStore, jobs: Jobs | None, *, retention_seconds: float, young_seconds: float
    ) -> None:
        self._repositories, self._jobs = repositories, jobs
        self._retention_seconds, self._young_seconds = retention_seconds, young_seconds

    async def run(self, every_seconds: float) -> None:
        """Look every so often, until cancelled."""
        while True:
            try:
                await self.look()
            except REDIS_ERRORS as error:
                log.warning("hub.upkeep_failed", error=error)
            await asyncio.sleep(every_seconds)

    async def look(self) -> None:
        """Measure every repository, remove what nobody needs any more, and pack refs that are many."""
        places = await asyncio.to_thread(lambda: list(self._repositories.places()))
        for place in places:
            size, refs = await asyncio.to_thread(self._repositories.measure, place)
            self._repositories.note_size(place, size)
            if refs > _MANY_REFS:
                await run_git("pack-refs", "--all", cwd=place.below(self._repositories.folder))
        for place in await asyncio.to_thread(self._find_useless, places):
            # At one instant between two requests; the rest beside them.
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
        # What nobody has borrowed for as long as jobs are kept is pushed again by the next one.
        bases = [one for one in places if one.is_base and self._repositories.age_seconds(one) > self._retention_seconds]
        return [one for one in old if one.name in gone] + bases
