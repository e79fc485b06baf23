"""CPU time by role, beside wall time: on a machine that others use too, it says what a benchmark really costs."""

from __future__ import annotations

import os
from collections.abc import Mapping

import psutil

from tests.fleet import Fleet, Worker

SERVER = "model's server"
_SERVERS = ("swarm rehearse", "bench.neutral")


def roles(fleet: Fleet, worker: Worker) -> dict[str, list[int]]:
    """The processes of a benchmark: the model's server and the client are this process's."""
    servers = [
        child.pid
        for child in psutil.Process().children()
        if any(name in " ".join(child.cmdline()) for name in _SERVERS)
    ]
    return {
        "pool": [child.pid for child in worker.children()],
        "worker's main process": [worker.process.pid],
        "Redis": [int(fleet.swarm.store.keyspace.client.info("server")["process_id"])],
        "client": [os.getpid()],
        SERVER: servers,
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


def ours(spent: Mapping[str, float]) -> float:
    """All but the model's server."""
    return sum(seconds for role, seconds in spent.items() if role != SERVER)


def describe(spent: Mapping[str, float]) -> str:
    """One line: the sum without the model's server, and the roles."""
    return f"{ours(spent):.2f} s CPU: " + ", ".join(f"{role} {found:.2f}" for role, found in spent.items())


def _seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
