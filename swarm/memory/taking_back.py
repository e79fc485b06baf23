"""Takes back what one job wrote into memory, on all shelves: its lines, its pages, its deletions and renames, and nobody else's."""

from __future__ import annotations

from swarm.errors import MemoryRefused
from swarm.memory.pages import Author, Memories
from swarm.memory.shelves import Shelf
from swarm.memory.weave import name_without, without_job


def take_back(memories: Memories, job: str) -> list[tuple[Shelf, str]]:
    """Make every page as if the job had written none of its versions that are kept; returns those that this has changed.

    Each page is changed in one step, and looked at anew if somebody writes meanwhile; so is the whole, once more, if it is broken off.
    """
    changed = []
    for shelf in memories.shelves():
        for page in memories.logged(shelf):
            while True:
                try:
                    if _restore(memories, shelf, page, job):
                        changed.append((shelf, page))
                    break
                except MemoryRefused as error:
                    if error.code != "version":
                        raise
    return changed


def _restore(memories: Memories, shelf: Shelf, page: str, job: str) -> bool:
    versions = memories.versions(shelf, page)
    if not any(version.job == job for version in versions):
        return False
    found = memories.read(shelf, page)
    now = found[1] if found else None
    # What is kept may be newer than what was read; then the version does not fit, and it begins anew.
    seen = found[0].version if found else 0
    wanted = without_job(versions, job)
    if wanted is not None and found is not None and seen != versions[-1].version:
        return _restore(memories, shelf, page, job)
    if wanted is None:
        if found is None:
            return False
        memories.change(shelf, "delete", page, Author(), if_version=seen, taken=job)
        return True
    if wanted != now:
        memories.change(shelf, "write", page, Author(), text=wanted, if_version=seen, taken=job)
    before = name_without(versions, job)
    if before is not None:
        try:
            memories.change(shelf, "rename", page, Author(), to=before)
        except MemoryRefused:
            # Somebody has made another page of that name: this one keeps its new one.
            return wanted != now
    return wanted != now or before is not None
