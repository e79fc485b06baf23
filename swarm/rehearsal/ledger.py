"""Records of the server's latest requests, and totals over all of them."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Any

from swarm.core.usage import Usage

_RECORDS_KEPT = 10_000
_UNMATCHED_KEPT = 100


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Summary of one request to `/v1/messages`."""

    time: float
    """Time of the reply, in seconds since the epoch."""
    request_id: str
    status: int
    model: str | None = None
    definition: str | None = None
    turn: int | None = None
    messages: int = 0
    stream: bool = False
    usage: dict[str, int] | None = None
    """Tokens by class; None if nothing was charged."""
    fault: str | None = None
    source: str | None = None
    """Rule or script that answered."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A request without a reply in the scenario."""

    definition: str | None
    turn: int
    prompt: str
    last_result: str
    last_text: str


class Ledger:
    """Totals and records of one server; safe to use from the thread of any connection."""

    def __init__(self) -> None:
        self.requests: deque[RequestRecord] = deque(maxlen=_RECORDS_KEPT)
        self._lock = threading.Lock()
        self._by_status: Counter[str] = Counter()
        self._by_model: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._unmatched: deque[Unmatched] = deque(maxlen=_UNMATCHED_KEPT)
        self._count = 0
        self._in_flight: set[str] = set()
        """Ids of the requests in progress."""
        self._peak_in_flight = 0

    def begin(self, request_id: str) -> None:
        """Count the start of a request. It is in progress until it is recorded or ended."""
        with self._lock:
            self._in_flight.add(request_id)
            self._peak_in_flight = max(self._peak_in_flight, len(self._in_flight))

    @property
    def in_flight(self) -> int:
        """Number of requests in progress."""
        with self._lock:
            return len(self._in_flight)

    def end(self, request_id: str) -> None:
        """Count the end of a request, also of one without a record."""
        with self._lock:
            self._in_flight.discard(request_id)

    def record(self, record: RequestRecord) -> None:
        """Record a request just before its reply is complete, so that the client can find it and the next one is not beside it."""
        with self._lock:
            self._in_flight.discard(record.request_id)
            self.requests.append(record)
            self._count += 1
            self._by_status[str(record.status)] += 1
            if record.model is not None:
                self._by_model[record.model] += 1
            if record.fault is not None:
                self._faults[record.fault] += 1
            if record.usage is not None:
                self._tokens.update(record.usage)

    def record_unmatched(self, unmatched: Unmatched) -> None:
        """Record a request without a scripted reply."""
        with self._lock:
            self._unmatched.append(unmatched)

    def stats(self) -> dict[str, Any]:
        """Totals, ready for JSON."""
        with self._lock:
            return {
                "requests": self._count,
                "by_status": dict(self._by_status),
                "by_model": dict(self._by_model),
                "faults": dict(self._faults),
                "tokens": {name: self._tokens[name] for name in Usage.model_fields},
                "in_flight": len(self._in_flight),
                "peak_in_flight": self._peak_in_flight,
                "unmatched": [asdict(item) for item in self._unmatched],
            }
