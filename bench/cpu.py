"""CPU time by role, beside wall time: on a machine that others use too, it says what a benchmark really costs."""

from __future__ import annotations

import os
from collections.abc import Mapping

import psutil

from tests.fleet import Fleet, Worker


def roles(fleet: Fleet, worker: Worker) -> dict[str, list[int]]:
    """The processes of a benchmark: the model's server and the client are this process's."""
    servers = [child.pid for child in psutil.Process().children() if "swarm rehearse" in " ".join(child.cmdline())]
    return {
        "pool": [child.pid for child in worker.children()],
        "worker's main process": [worker.process.pid],
        "Redis": [int(fleet.swarm.store.client.info("server")["process_id"])],
        "client": [os.getpid()],
        "model's server": servers,
    }


class CpuMeter:
    """Seconds of CPU since it was made, by role."""

    def __init__(self, pids: Mapping[str, list[int]]) -> None:
        self._pids = pids
        self._before = self._now()

    def spent(self) -> dict[str, float]:
        """What each role has used."""
        return {role: seconds - self._before[role] for role, seconds in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {role: sum(map(_seconds, pids)) for role, pids in self._pids.items()}


def describe(spent: Mapping[str, float]) -> str:
    """One line: the sum, and the roles."""
    return f"{sum(spent.values()):.1f} s CPU: " + ", ".join(f"{role} {found:.1f}" for role, found in spent.items())


def _seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
