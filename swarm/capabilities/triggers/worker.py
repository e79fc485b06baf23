"""A worker's part in triggers: it looks for due events, and has a process of its own start the jobs.

Reading a workspace's definitions and settings loads what a worker's main process must not keep, and may wait for Git.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterable

from swarm.capabilities.triggers.store import Triggers
from swarm.core.log import EventLog
from swarm.runtime.additions import Duty, WorkerHost, WorkerPart

log = EventLog("swarm.triggers")
LOOK_SECONDS = 1.0
_START_SECONDS = 600.0


class TriggersOfWorker(WorkerPart):
    """Starts due jobs, on each worker."""

    def duties(self, host: WorkerHost) -> Iterable[Duty]:
        """Look for due times and events."""
        yield Duty("triggers", LOOK_SECONDS, Firings(host))


class Firings:
    """Has the due firings started, once per call."""

    def __init__(self, host: WorkerHost) -> None:
        self._host, self._triggers = host, Triggers(host.store.keyspace)

    def __call__(self) -> None:
        if self._host.is_draining():
            return
        waits, schedules = self._triggers.look(socket.gethostname())
        for name, trigger, expected in schedules:
            self._triggers.advance(name, trigger, expected, self._host.store.now())
        if not waits and not schedules:
            return
        command = [sys.executable, "-P", "-m", "swarm", "triggers", "start-due"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START_SECONDS)
        if done.returncode:
            log.warning("triggers.not_started", why=done.stderr.strip()[-500:])
