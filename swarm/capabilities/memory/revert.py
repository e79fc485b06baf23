"""Revert what one job wrote into all memory stores: its lines, pages, deletions and renames only.

A page's versions are woven into one: each line knows the job that added it and the job that removed it. The reverted page omits the lines
that the job added, and restores lines that only it removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from swarm.capabilities.memory.pages import Author, Memories, Root, Version, split_lines
from swarm.core.errors import MemoryRefused
from swarm.definitions.memory_stores import MemoryStore


def take_back(memories: Memories, job: str) -> list[tuple[MemoryStore, str]]:
    """Make every page as if the job had written none of its versions; returns the changed pages.

    Lines that the job removed in versions no longer kept are not restored. Each page changes in one step, retried after concurrent changes.
    An interrupted call can be repeated.
    """
    changed = []
    for memory_store in memories.memory_stores():
        for page in memories.logged(memory_store):
            while True:
                try:
                    if _restore(memories, memory_store, page, job):
                        changed.append((memory_store, page))
                    break
                except MemoryRefused as error:
                    if error.code != "version":
                        raise
    return changed


def _restore(memories: Memories, memory_store: MemoryStore, page: str, job: str) -> bool:
    versions, root = memories.past(memory_store, page)
    if job not in (*(version.job for version in versions), *(by for _, by in (root.by if root else ()))):
        return False
    found = memories.read(memory_store, page)
    # If the page changed after it was read, the version does not match and the loop retries.
    seen, now = (found[0].version, found[1]) if found else (0, None)
    wanted = without_job(versions, job, root)
    if wanted is None:
        if found is not None:
            memories.change(memory_store, "delete", page, Author(), if_version=seen, taken=job)
        return found is not None
    if found is not None and seen != versions[-1].version:
        return _restore(memories, memory_store, page, job)
    if wanted != now:
        memories.change(memory_store, "write", page, Author(), text=wanted, if_version=seen, taken=job)
    before = name_without(versions, job)
    if before is not None:
        try:
            memories.change(memory_store, "rename", page, Author(), to=before)
        except MemoryRefused:
            # Another page has the old name by now: this one keeps its new one.
            return wanted != now
    return wanted != now or before is not None


# -- one page, pure -----------------------------------------------------------------------------------------------


@dataclass
class _PageLine:
    text: str
    brought_by: str
    taken_by: str | None = None


def without_job(versions: Sequence[Version], job: str, root: Root | None = None) -> str | None:
    """Return the page as other authors made it; None if it would not exist.

    `versions` are those kept, the oldest first. `root` names the authors of lines before the oldest kept version; without it they stay.
    """
    weave = [_PageLine(line, by) for line, by in (root.lines() if root else ())]
    untold = bool(versions) and not versions[0].new and root is None
    last = next((version for version in reversed(versions) if version.job != job), None)
    gone = last.op == "delete" if last else not untold and all(line.brought_by == job for line in weave)
    if gone:
        return None
    for at, version in enumerate(versions):
        _apply(weave, version, "" if at == 0 and untold else version.job)
    return "".join(line.text for line in weave if line.brought_by != job and line.taken_by in (None, job))


def name_without(versions: Sequence[Version], job: str) -> str | None:
    """The page's name before that job renamed it; None if it did not, or if another author renamed it since."""
    renames = [version for version in versions if version.op == "rename"]
    last = next((at for at in range(len(renames) - 1, -1, -1) if renames[at].job != job), -1)
    return renames[last + 1].source if last + 1 < len(renames) else None


def _apply(weave: list[_PageLine], version: Version, author: str) -> None:
    if version.taken:
        _undo(weave, version.taken, author)
    _add(weave, [] if version.op == "delete" else split_lines(version.text), author)


def _undo(weave: list[_PageLine], job: str, author: str) -> None:
    """Undo a job's changes: restore the lines it removed, as the same lines, and remove those it added."""
    for line in weave:
        if line.brought_by == job:
            line.taken_by = author
        elif line.taken_by == job:
            line.taken_by = None


def _add(weave: list[_PageLine], lines: list[str], author: str) -> None:
    heartbeat = [at for at, line in enumerate(weave) if line.taken_by is None]
    matcher = SequenceMatcher(a=[weave[at].text for at in heartbeat], b=lines, autojunk=False)
    # From the end, so that earlier positions stay valid.
    for op, begin, end, first, last in reversed(matcher.get_opcodes()):
        if op == "equal":
            continue
        for at in heartbeat[begin:end]:
            weave[at].taken_by = author
        place = heartbeat[end - 1] + 1 if end else 0
        weave[place:place] = [_PageLine(line, author) for line in lines[first:last]]
