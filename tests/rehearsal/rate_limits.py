"""The simulated rate limits: buckets that fill continuously, and the headers that report them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from swarm.rehearsal.connection import Headers
from tests.rehearsal.scenario import RateLimits


class _Bucket:
    def __init__(self, limit: int, now: float) -> None:
        self.limit, self.level, self.filled = limit, float(limit), now

    def fill(self, now: float) -> None:
        self.level = min(self.limit, self.level + (now - self.filled) * self.limit / 60)
        self.filled = now

    def seconds_until(self, level: float) -> float:
        return max(0.0, (level - self.level) * 60 / self.limit)


class RateLimiter:
    """Requests, input tokens and output tokens per minute, of the whole server."""

    def __init__(self, limits: RateLimits, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._enforce, self._retry_after, self._most = limits.enforce, limits.retry_after, limits.in_flight
        self._stated, self._refusals_count = limits.stated, limits.refusals_count
        self._lock = threading.Lock()
        now = clock()
        self._requests = _Bucket(limits.requests, now)
        self._input = _Bucket(limits.input_tokens, now)
        self._output = _Bucket(limits.output_tokens, now)
        self._named = (("requests", self._requests), ("input-tokens", self._input), ("output-tokens", self._output))

    def admit(self, input_tokens: int = 1, in_flight: int = 0) -> float | None:
        """Take one request with so much input that is not read from the cache, of so many that are under way with it.

        None admits it, a number says after how many seconds to try again.
        """
        with self._lock:
            if self._most is not None and in_flight > self._most:
                return self._retry_after or 1.0
            self._fill()
            # What is larger than a bucket goes when that is full.
            fresh = min(input_tokens, self._input.limit)
            wait = max(self._requests.seconds_until(1), self._input.seconds_until(fresh), self._output.seconds_until(1))
            if self._enforce and wait > 0:
                self._requests.level -= self._refusals_count
                return self._retry_after or wait
            self._requests.level -= 1
            self._input.level -= input_tokens
            return None

    def spend(self, output_tokens: int) -> None:
        """Count a reply as it ends. The bucket may go below zero: nobody knows a reply's size beforehand."""
        with self._lock:
            self._output.level -= output_tokens

    def headers(self) -> Headers:
        """What the API reports with every response."""
        if not self._stated:
            return []
        with self._lock:
            self._fill()
            now = self._clock()
            headers: Headers = []
            for name, bucket in self._named:
                reset = datetime.fromtimestamp(int(now + bucket.seconds_until(bucket.limit)) + 1, UTC)
                headers += [
                    (f"anthropic-ratelimit-{name}-limit", str(bucket.limit)),
                    (f"anthropic-ratelimit-{name}-remaining", str(max(0, int(bucket.level)))),
                    (f"anthropic-ratelimit-{name}-reset", reset.strftime("%Y-%m-%dT%H:%M:%SZ")),
                ]
            return headers

    def _fill(self) -> None:
        now = self._clock()
        for _, bucket in self._named:
            bucket.fill(now)
