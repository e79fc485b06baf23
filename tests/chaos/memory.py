"""How much memory a fleet takes while it works: samples on a thread of its own, and the slope of a line through them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import redis

from tests.fleet import Worker

MIB = 1 << 20
LONG_ENOUGH_SECONDS = 240.0
"""What is shorter tells nothing of a slope."""
SETTLING = 0.2
"""The first part of the time is left out of a slope: caches fill, pools start."""


@dataclass(frozen=True)
class Slope:
    """A line through samples, by least squares."""

    mib_per_hour: float
    error: float
    """Its standard error, MiB per hour."""
    mean_mib: float
    samples: int
    seconds: float

    @classmethod
    def through(cls, samples: Sequence[tuple[float, float]]) -> Slope | None:
        """The line through (seconds, MiB), the settling left out; None where there is too little to tell."""
        if not samples or samples[-1][0] - samples[0][0] < LONG_ENOUGH_SECONDS:
            return None
        begin, end = samples[0][0], samples[-1][0]
        kept = [(at, mib) for at, mib in samples if at >= begin + SETTLING * (end - begin)]
        count = len(kept)
        if count < 3:
            return None
        mean_at, mean = sum(at for at, _ in kept) / count, sum(mib for _, mib in kept) / count
        spread = sum((at - mean_at) ** 2 for at, _ in kept)
        slope = sum((at - mean_at) * (mib - mean) for at, mib in kept) / spread
        rest = sum((mib - mean - slope * (at - mean_at)) ** 2 for at, mib in kept)
        error = math.sqrt(rest / (count - 2) / spread)
        return cls(slope * 3600, error * 3600, mean, count, kept[-1][0] - kept[0][0])


class Sampler:
    """Takes a sample every so often, from `start` until `stop`.

    The series, in MiB: `workers`, the proportional set size of all worker processes together; `worker process`, the mean of one;
    `spared worker: main` and `… pool`, those of the worker that no blow falls on; `redis`, what it has allocated; `redis resident`.
    """

    def __init__(
        self,
        workers: Callable[[], Sequence[Worker]],
        spared: Sequence[Worker],
        client: Callable[[], redis.Redis],
        every_seconds: float,
    ) -> None:
        self._workers, self._spared, self._client, self._every = workers, spared, client, every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)
        self._began = time.monotonic()
        self.series: dict[str, list[tuple[float, float]]] = {}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more."""
        self._over.set()
        self._thread.join(30)

    def slopes(self) -> dict[str, Slope]:
        """The slope of each series that is long enough."""
        found = {name: Slope.through(samples) for name, samples in self.series.items()}
        return {name: slope for name, slope in found.items() if slope is not None}

    def _sample(self) -> None:
        while not self._over.wait(self._every):
            at = round(time.monotonic() - self._began, 1)
            for name, mib in {**self._measure_workers(), **self._measure_redis()}.items():
                self.series.setdefault(name, []).append((at, round(mib, 3)))

    def _measure_workers(self) -> dict[str, float]:
        sizes: list[float] = []
        measured: dict[str, float] = {}
        for worker in self._workers():
            main = _measure(worker.process.pid)
            pool = [size for child in worker.children() if (size := _measure(child.pid))]
            if main and worker in self._spared[:1]:
                measured["spared worker: main"], measured["spared worker: pool"] = main, sum(pool)
            sizes += [*([main] if main else []), *pool]
        if sizes:
            measured["workers"], measured["worker process"] = sum(sizes), sum(sizes) / len(sizes)
        return measured

    def _measure_redis(self) -> dict[str, float]:
        try:
            memory: Any = self._client().info("memory")
        except (redis.RedisError, OSError):
            return {}  # it is being hit just now
        return {"redis": memory["used_memory"] / MIB, "redis resident": memory["used_memory_rss"] / MIB}


def _measure(pid: int) -> float | None:
    try:
        # Pages that were shared at the fork count once.
        return float(psutil.Process(pid).memory_full_info().pss) / MIB
    except psutil.Error:
        return None
