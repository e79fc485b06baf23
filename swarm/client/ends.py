"""Waits for the ends of jobs: one reader and one blocking command for all waits of a client.

A bell only says that it is time to look at the job. It also rings when the reader begins, or has lost Redis for a while, so no end is
missed. The reader is a thread that ends soon after the last wait.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from swarm.store.outage import REDIS_ERRORS
from swarm.store.streams import ENDS, StreamStore

LOOK_SECONDS = 30.0
"""Time after which a wait looks at its job although no bell has rung."""
_BLOCK_SECONDS = 3.0
_AWAY_SECONDS = 0.5

Ring = Callable[[], object]


class JobEnds:
    """The ends of a swarm's jobs, for any number of waits. Thread-safe."""

    def __init__(self, streams: StreamStore) -> None:
        self._streams = streams
        self._bells: defaultdict[str, list[Ring]] = defaultdict(list)
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None
        self._cursor = ""
        """The reader's place in the stream of ends; empty until it is known."""
        self._error: Exception | None = None

    @contextmanager
    def watching(self, job_id: str, ring: Ring) -> Iterator[None]:
        """Have `ring` called soon, and whenever the job may have ended."""
        with self._lock:
            self._bells[job_id].append(ring)
            if self._reader is None or not self._reader.is_alive():
                self._cursor, self._error = "", None
                self._reader = threading.Thread(target=self._read, name="swarm-ends", daemon=True)
                self._reader.start()
            elif self._cursor:
                ring()
        try:
            yield
        finally:
            with self._lock:
                self._bells[job_id].remove(ring)
                if not self._bells[job_id]:
                    del self._bells[job_id]

    def check(self) -> None:
        """Raise the reader's error while it has no answer from Redis, so that not every wait must find that out."""
        if (error := self._error) is not None:
            raise error.with_traceback(None)

    def _read(self) -> None:
        while self._is_wanted():
            try:
                if self._cursor:
                    found = self._streams.wait(ENDS, self._cursor, _BLOCK_SECONDS)
                    self._ring([fields["job"] for _, fields in found], found[-1][0] if found else self._cursor)
                else:
                    # Each wait looks at its job once the place of later ends is known.
                    self._ring(None, self._streams.last(ENDS))
            except Exception as error:
                # A client that is closed meanwhile raises errors of many types; then the waits look for themselves.
                self._ring(None, "", error if isinstance(error, REDIS_ERRORS) else None)
                time.sleep(_AWAY_SECONDS)

    def _is_wanted(self) -> bool:
        with self._lock:
            if not self._bells:
                self._reader = None
            return bool(self._bells)

    def _ring(self, jobs: Iterable[str] | None, cursor: str, error: Exception | None = None) -> None:
        """Ring for these jobs, or for all, and note the reader's place, or why it has none."""
        with self._lock:
            self._cursor, self._error = cursor, error
            for ring in [ring for job in (self._bells if jobs is None else jobs) for ring in self._bells.get(job, ())]:
                with suppress(RuntimeError):  # its event loop has been closed
                    ring()
