"""Limits the agents' files on a host. One worker of the host at a time does it."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from dataclasses import replace

from swarm.core.log import EventLog
from swarm.core.records import AgentView
from swarm.core.settings import Settings
from swarm.store.store import Store
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
CLEAN_SECONDS = 60.0


class Housekeeper:
    """Measures the checkouts of this host, and removes unneeded ones."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._checkouts, self._most_bytes = settings.checkouts_folder(), settings.checkouts_mib << 20
        self._store = store
        self._measured: dict[str, Leftover] = {}

    def __call__(self) -> None:
        if not self._checkouts.is_dir():
            return
        lock = os.open(self._checkouts / "cleaning.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another worker of this host is at it
        else:
            self._clean()
        finally:
            os.close(lock)

    def _clean(self) -> None:
        remove_leftovers(self._checkouts)
        held = [self._measure(one) for one in list_held(self._checkouts)]
        self._measured = {one.name: one for one in held}
        if sum(one.bytes for one in held) > self._most_bytes:
            remove_leftovers(self._checkouts, spares=True)
        known = self._look([one.name for one in held])
        for name in choose(held, known, most_bytes=self._most_bytes, now=time.time()):
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
