"""Agents as threads (`-P threads -c 32`) against one process each (prefork), with 64 and 512 waiting for the model at once."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

import psutil

from bench.cpu import CpuMeter, roles
from bench.lives import submit
from bench.measure import Report, alternate
from bench.memory import pss_mib
from bench.neutral import Neutral, neutral
from tests.fleet import Fleet, Worker
from tests.waiting import wait_for

THREADS = 32
"""Agents in one process."""
SIZES = (64, 512)
LEAST_FREE_MIB = 30 * max(SIZES)
_HELD = "TREE depth=0 steps=0 think=120000"
_TURNS = 4
_STARTS = 20


class _Pool:
    """A fleet whose workers run all their agents in the same way."""

    def __init__(self, name: str, size: int, server: Neutral, closing_at_end: ExitStack) -> None:
        self.fleet = closing_at_end.enter_context(closing(Fleet()))
        self.size, self._server = size, server
        each = size if name == "prefork" else THREADS
        self.workers = [self.fleet.start_worker(each, pool=name) for _ in range(size // each)]

    def work(self, think: int) -> float:
        """Run as many agents as fit at once; returns the seconds."""
        began = time.monotonic()
        prompt = f"TREE depth=0 steps={_TURNS - 1} think={think}"
        jobs = [submit(self.fleet, self._server.url, prompt) for _ in range(self.size)]
        for job in jobs:
            assert job.wait(300).text == "DONE 1"
        return time.monotonic() - began

    def cpu_ms(self) -> float:
        """Milliseconds of CPU of a turn whose model takes 2 s; of workers and Redis."""
        meters = [CpuMeter(_servers(self.fleet, worker)) for worker in self.workers]
        redis = CpuMeter({"Redis": roles(self.fleet, self.workers[0])["Redis"]})
        self.work(2_000)
        spent = sum(sum(meter.spent().values()) for meter in (*meters, redis))
        return spent * 1_000 / (self.size * _TURNS)

    def memory_mib(self) -> float:
        """PSS of all workers while every agent waits for the model, then all are cancelled."""
        jobs = [submit(self.fleet, self._server.url, _HELD) for _ in range(self.size)]
        busy = self.fleet.swarm.store.leases.busy
        wait_for("all agents wait for the model", lambda: sum(busy().values()) == self.size, 300)
        found = sum(
            pss_mib(pid) for worker in self.workers for pids in _servers(self.fleet, worker).values() for pid in pids
        )
        for job in jobs:
            job.cancel()
        wait_for("every place is free", lambda: not busy(), 120)
        return found / self.size

    def start_ms(self) -> float:
        """Median milliseconds from a submission to the first request's arrival, on an idle worker."""
        found = []
        for _ in range(_STARTS):
            self._server.tally()
            began = time.time()
            submit(self.fleet, self._server.url, "TREE depth=0 steps=0").wait(60)
            found.append((self._server.tally().first - began) * 1_000)
        return statistics.median(found)


def _servers(fleet: Fleet, worker: Worker) -> dict[str, list[int]]:
    every = roles(fleet, worker)
    return {role: every[role] for role in ("pool", "worker's main process")}


def run(report: Report, chosen: Namespace) -> None:
    """Prefork is the baseline, in turns. CPU is that of workers and Redis."""
    for size in SIZES:
        free = psutil.virtual_memory().available / 2**20
        if size == max(SIZES) and free < LEAST_FREE_MIB:
            report.note(f"{size} in flight: not measured, {free:.0f} MiB are free of {LEAST_FREE_MIB} needed")
            continue
        with neutral() as server, ExitStack() as stack:
            compare = _Comparison(report, *(_Pool(name, size, server, stack) for name in ("threads", "prefork")))
            compare.all(1, "PSS of an agent in flight, MiB", _Pool.memory_mib, 0.25)
            compare.all(3, "CPU of a turn, ms", _Pool.cpu_ms, 1.25)
            compare.all(3, f"{_TURNS} turns of 2 s, s", lambda pool: pool.work(2_000), 1.25)
            compare.all(3, f"{_TURNS} turns of 0.2 s, s", lambda pool: pool.work(200), 1.5)
            compare.all(3, "enqueued → first request, ms", _Pool.start_ms, 1.5)


class _Comparison:
    """Figures of threads against those of prefork."""

    def __init__(self, report: Report, threads: _Pool, prefork: _Pool) -> None:
        self._report, self._pools = report, (threads, prefork)
        for pool in self._pools:
            pool.work(200)  # every process opens its connections

    def all(self, rounds: int, name: str, measure: Callable[[_Pool], float], target: float) -> None:
        """Measure both, in turns."""
        found = alternate(rounds, *(partial(measure, pool) for pool in self._pools))
        threads, prefork = map(statistics.median, found)
        name = f"{self._pools[0].size} in flight, {name}"
        self._report.note(f"{name}: threads {threads:.2f}, prefork {prefork:.2f}")
        self._report.figure(name, threads / prefork, "×", target=target)
