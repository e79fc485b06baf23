"""Limits the agents' files on a host. One worker of the host at a time does it."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace

from swarm.core.log import EventLog
from swarm.core.records import AgentView
from swarm.core.settings import Settings
from swarm.store.forgetting import Forgetting
from swarm.store.store import Store
from swarm.tasks import host
from swarm.tasks.host import free_bytes
from swarm.workspace.leftovers import (
    Leftover,
    LeftoverState,
    choose,
    leave_alone,
    list_held,
    measure,
    remove_leftovers,
    take_away,
)
from swarm.workspace.spares import make_spares

log = EventLog("swarm.files")
SPARE_SECONDS = 1.0
DISK_SECONDS = 1.0
"""Interval between looks at the disk."""
CLEAN_SECONDS, CLEAN_AGAIN_SECONDS = 60.0, 10.0
"""Intervals between cleanings, and while the disk has less free space than its reserve."""
_OBJECTS_SECONDS = 600.0


class ObjectsCare:
    """Archives jobs that are due and deletes the objects of forgotten ones.

    Each in a process of its own: a library for them may not survive a later fork.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self) -> None:
        if self._store.archive.has_due():
            _run("archive", "--due")
        if Forgetting(self._store.keyspace).has_orphans():
            _run("forget", "--leftovers")


def _run(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "swarm", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_OBJECTS_SECONDS,
    )
    if done.returncode:
        log.warning("objects.left", command=" ".join(command), why=done.stderr.strip()[-500:])


class Housekeeper:
    """Keeps the reserve of this host's disk free: measures the checkouts, and removes unneeded ones.

    If that does not help, the host takes no agents.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self._checkouts, self._most_bytes = settings.checkouts_folder(), settings.checkouts_mib << 20
        self._reserve = settings.disk_reserve_mib << 20 if settings.hub else 0
        self._store = store
        self._measured: dict[str, Leftover] = {}
        self._due, self._was_short = 0.0, False

    def __call__(self) -> None:
        is_short, now = self._find_short() > 0, time.monotonic()
        if now >= self._due or (is_short and not self._was_short):
            self._due = now + (CLEAN_AGAIN_SECONDS if is_short else CLEAN_SECONDS)
            if not self._clean_alone():
                return  # another worker of this host is at it
        self._was_short = is_short
        free = free_bytes(self._checkouts)
        host.update(free_mib=free >> 20)
        if free < self._reserve:
            host.note_fault(
                "disk",
                f"its disk is full: {free >> 20:,} MiB are free for {self._checkouts}, and the reserve is {self._reserve >> 20:,} MiB "
                "(SWARM_DISK_RESERVE_MIB)",
            )

    def _find_short(self) -> int:
        """The bytes that the reserve lacks."""
        return max(0, self._reserve - free_bytes(self._checkouts))

    def _clean_alone(self) -> bool:
        """Clean up, unless another worker does; returns whether it does not."""
        if not self._checkouts.is_dir():
            return True
        # The folder itself: a full disk has no room for a file.
        lock = os.open(self._checkouts, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            self._clean()
        finally:
            os.close(lock)
        return True

    def _clean(self) -> None:
        remove_leftovers(self._checkouts)
        held = [self._measure(one) for one in list_held(self._checkouts)]
        self._measured = {one.name: one for one in held}
        size, short = sum(one.bytes for one in held), self._find_short()
        # A quarter more than it lacks, or the next file would have it clean again.
        most_bytes = min(self._most_bytes, size - short * 5 // 4) if short else self._most_bytes
        if size > most_bytes:
            remove_leftovers(self._checkouts, spares=True)
        known = self._look([one.name for one in held])
        for name in choose(held, known, most_bytes=most_bytes, now=time.time()):
            leave_alone(self._checkouts, name)
            # A worker that took the agent before the mark existed has recorded so by now.
            if self._look([name]).get(name, "free") == "free" and take_away(self._checkouts, name):
                log.info("files.removed", name=name, bytes=self._measured[name].bytes)

    def _measure(self, one: Leftover) -> Leftover:
        """Measure a checkout again only if it was used since the last time."""
        before = self._measured.get(one.name)
        if before is not None and before.used_at == one.used_at:
            return before
        return replace(one, bytes=measure(self._checkouts, one.name))

    def _look(self, names: list[str]) -> dict[str, LeftoverState]:
        """Find the states of known agents."""
        views, hints = self._store.agents.find(names), self._store.agents.hints(names)
        return {
            view.id: _judge(view, hint is not None and hint.carried)
            for view, hint in zip(views, hints, strict=True)
            if view is not None
        }


class SpareCheckouts:
    """Makes spare checkouts that agents of this host could have used."""

    def __init__(self, settings: Settings) -> None:
        self._checkouts = settings.checkouts_folder()

    def __call__(self) -> None:
        for name in make_spares(self._checkouts):
            log.info("files.spare_made", name=name)


def _judge(view: AgentView, carried: bool) -> LeftoverState:
    is_here = view.worker is None or view.worker.partition(":")[0] == socket.gethostname()
    if is_here and not view.ended:
        return "needed"
    return "free" if carried else "kept"
