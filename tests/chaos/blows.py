"""The blows: what is done to a fleet, one function a kind.

| kind | what |
|---|---|
| `child` | SIGKILL a pool process |
| `worker` | SIGKILL a worker with its pool, and start another |
| `drain` | SIGTERM a worker, and start another |
| `stop` | SIGSTOP a worker past its lease, then SIGCONT |
| `redis` | SIGKILL Redis, and start it again |
| `pause` | SIGSTOP Redis for longer than its clients wait, then SIGCONT |
| `cut` | close every connection to Redis |
| `failover` | SIGKILL the primary; the replica takes over; the dead one comes back as a replica |
| `switch` | have primary and replica change their roles |
| `near` | have Redis' memory near its limit, so that nothing new starts, then raise the limit |
| `full` | have Redis' memory used up, so that it refuses writes, then raise the limit |
| `disk` | fill up Redis' disk until it refuses writes, then free it |
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Protocol

from swarm.local.redis_server import find_redis
from tests.chaos.recovery import Blow
from tests.fleet import Fleet, Worker
from tests.redis_servers import Group, OwnServer, SmallDiskServer, pause
from tests.waiting import wait_for

DRAIN_SECONDS = 60.0
"""How long a worker may take to leave; what it waits for are calls of a second or so."""
_PAUSE_SECONDS = (3.0, 5.0)
_FULL_SECONDS = (0.5, 3.0)
_LIMITED_SECONDS = (2.0, 12.0)


class Server(Protocol):
    """A Redis that can be hit."""

    @property
    def pid(self) -> int:
        """Its process."""

    def kill(self) -> None:
        """`kill -9`."""

    def start(self) -> None:
        """Start it again, and wait until it answers."""


class LocalServer:
    """The Redis that a fleet has started for itself."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def pid(self) -> int:
        """Its process."""
        server = find_redis(self._fleet.settings)
        assert server is not None, "the fleet's Redis runs"
        return server.pid

    def kill(self) -> None:
        """`kill -9`."""
        os.kill(self.pid, signal.SIGKILL)
        wait_for("Redis is dead", lambda: find_redis(self._fleet.settings) is None)

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        self._fleet.restart_redis()


class Blows:
    """Deals blows to one fleet and keeps count of who was hit. `hire` starts another worker."""

    def __init__(
        self,
        fleet: Fleet,
        server: Server | Group,
        chance: random.Random,
        hire: Callable[[], Worker],
        *,
        spare_one: bool,
    ) -> None:
        self._fleet, self._server, self._chance, self._hire = fleet, server, chance, hire
        self._spare_one = spare_one
        self._stopped: dict[Worker, float] = {}
        self._leaving: dict[Worker, threading.Thread] = {}
        self._gone: set[Worker] = set()
        self.dealt: list[Blow] = []
        self.drains: dict[int, float] = {}
        """How long each worker that was told to leave took, in seconds, by its main process."""
        self.complaints: list[str] = []
        """Workers that ended when they should not have, or did not end when they should have."""

    def can_strike(self, kind: str) -> bool:
        """Whether that blow would leave somebody to go on; a group without a replica waits for one."""
        return kind not in ("failover", "switch") or (isinstance(self._server, Group) and self._server.is_whole())

    def strike(self, kind: str) -> bool:
        """Deal one blow; returns whether it found somebody to hit. Only then it counts."""
        at, before = time.time(), len(self.dealt)
        match kind:
            case "child" | "worker" | "drain" | "stop":
                worker = self._hit_worker(kind)
                if worker is not None:
                    self.dealt.append(Blow(kind, at, worker.process.pid, at))
            case "cut":
                self._fleet.swarm.store.keyspace.client.client_kill_filter(_type="normal", skipme=True)
                self.dealt.append(Blow(kind, at, None, at))
            case _:
                self._hit_redis(kind)
                self.dealt.append(Blow(kind, at, None, time.time()))
        return len(self.dealt) > before

    def tend(self, *, finish: bool = False) -> None:
        """Let go on who was stopped for long enough (or at all), note who has left, and replace who ended without being told to."""
        for worker, until in list(self._stopped.items()):
            if finish or time.monotonic() >= until:
                os.killpg(worker.process.pid, signal.SIGCONT)
                del self._stopped[worker]
        self._note_leaving()
        for worker in self.heartbeat():
            if worker.process.poll() is not None:
                self._gone.add(worker)
                self._complain(worker, f"a worker that nobody killed ended with code {worker.process.returncode}")
                self._hire()

    def heartbeat(self) -> list[Worker]:
        """The workers that nothing has been done to, those that still start among them."""
        return [
            w for w in self._fleet.workers if w not in self._gone and w not in self._stopped and w not in self._leaving
        ]

    def finish(self) -> None:
        """Let everybody go on, have all workers leave, and wait until they have."""
        self.tend(finish=True)
        for worker in self.heartbeat():
            worker.wait_ready()
            self._send_away(worker)
        self._wait_for_leaving()

    def _hit_worker(self, kind: str) -> Worker | None:
        spared = self._fleet.workers[:1] if self._spare_one else []
        exposed = [worker for worker in self.heartbeat() if worker.ready and worker not in spared]
        if not exposed or (kind == "stop" and len(self.heartbeat()) == 1):
            return None
        worker = self._chance.choice(exposed)
        match kind:
            case "child":
                victims = worker.children()
                if not victims:
                    return None
                self._chance.choice(victims).kill()
            case "worker":
                self._gone.add(worker)
                worker.kill()
                self._hire()
            case "drain":
                self._send_away(worker)
                self._hire()
            case "stop":
                os.killpg(worker.process.pid, signal.SIGSTOP)
                self._stopped[worker] = time.monotonic() + self._fleet.settings.lease_seconds + 1.5
        return worker

    def _hit_redis(self, kind: str) -> None:
        server = self._server
        match kind, server:
            case "failover", Group():
                server.kill_primary()
            case "switch", Group():
                server.switch()
            case "disk", SmallDiskServer():
                server.fill()
                wait_for("Redis cannot write", server.refuses)
                time.sleep(self._chance.uniform(*_FULL_SECONDS))
                server.free()
                wait_for("Redis can write again", lambda: not server.refuses())
            case "near" | "full", _:
                self._limit_memory(1.03 if kind == "near" else 1.0, self._chance.uniform(*_LIMITED_SECONDS))
            case "pause", _:
                pause(server.pid, self._chance.uniform(*_PAUSE_SECONDS))
            case "redis", OwnServer() | LocalServer():
                server.kill()
                time.sleep(self._chance.uniform(0.0, 1.0))
                server.start()
            case _:
                raise ValueError(f"no blow {kind!r} to a {type(server).__name__}")

    def _limit_memory(self, share: float, seconds: float) -> None:
        client = self._fleet.swarm.store.keyspace.client
        client.config_set("maxmemory", int(client.info("memory")["used_memory"] * share))
        time.sleep(seconds)
        client.config_set("maxmemory", 0)

    def _send_away(self, worker: Worker) -> None:
        # Somebody of its own looks when it has left: other blows keep this thread for seconds.
        watch = threading.Thread(target=self._time_leaving, args=(worker, time.monotonic()), daemon=True)
        self._leaving[worker] = watch
        worker.process.send_signal(signal.SIGTERM)
        watch.start()

    def _time_leaving(self, worker: Worker, told_at: float) -> None:
        try:
            code = worker.process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            self._complain(worker, f"a worker has not left {DRAIN_SECONDS:.0f} s after it was told to")
            worker.kill()
            return
        self.drains[worker.process.pid] = time.monotonic() - told_at
        if code != 0:
            self._complain(worker, f"a worker that was told to leave ended with code {code}")

    def _note_leaving(self) -> None:
        for worker, watch in list(self._leaving.items()):
            if not watch.is_alive():
                del self._leaving[worker]
                self._gone.add(worker)

    def _wait_for_leaving(self) -> None:
        for watch in list(self._leaving.values()):
            watch.join()
        self._note_leaving()

    def _complain(self, worker: Worker, what: str) -> None:
        self.complaints.append(f"{what}:\n{worker.text()[-1500:]}")
