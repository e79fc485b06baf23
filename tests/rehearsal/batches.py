"""The Message Batches API as the rehearsal server plays it: batches are kept, and answered by the scenario when their time has come."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.provider import Play
from tests.rehearsal.scenario import BatchRules

_MOST = 100_000
_PAGE = 1_000


@dataclass
class _Batch:
    id: str
    made_at: datetime
    due: float
    requests: list[dict[str, Any]]
    results: list[dict[str, Any]] = field(default_factory=list)


class BatchDesk:
    """The batches of one server. Thread-safe."""

    def __init__(self, rules: BatchRules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._batches: dict[str, _Batch] = {}
        self._sent: Counter[str] = Counter()

    def post(self, body: Any) -> tuple[dict[str, Any], bool]:
        """Take a batch in; how it stands, and whether its sender is to be told so."""
        requests = _read_requests(body)
        with self._lock:
            number = next(self._numbers)
            batch = _Batch(
                f"msgbatch_rehearsed{number:08d}", datetime.now(UTC), time.monotonic() + self._rules.seconds, requests
            )
            self._batches[batch.id] = batch
            self._sent.update(request["custom_id"] for request in requests)
            return self._describe(batch, ""), number > self._rules.unheard

    def get(self, batch_id: str, base: str) -> dict[str, Any]:
        """A batch as it stands; its results are below `base`."""
        with self._lock:
            return self._describe(self._find(batch_id), base)

    def page(self, base: str) -> dict[str, Any]:
        """The newest batches, newest first, as one page."""
        with self._lock:
            found = [self._describe(batch, base) for batch in [*reversed(self._batches.values())][:_PAGE]]
            first, last = (found[0]["id"], found[-1]["id"]) if found else (None, None)
            return {"data": found, "has_more": False, "first_id": first, "last_id": last}

    def results(self, batch_id: str, play: Play) -> list[dict[str, Any]]:
        """What came of each request of a batch that has ended."""
        with self._lock:
            batch = self._find(batch_id)
            if time.monotonic() < batch.due:
                raise RequestRefused(f"{batch_id} is in progress: there are no results yet")
            if not batch.results:
                batch.results = [
                    {"custom_id": request["custom_id"], "result": _try(play, request["params"])}
                    for request in batch.requests
                ]
            return batch.results

    def stats(self) -> dict[str, Any]:
        """What was sent, for statistics."""
        with self._lock:
            repeated = [name for name, times in self._sent.items() if times > 1]
            return {"batches": len(self._batches), "requests": sum(self._sent.values()), "repeated": repeated}

    def _find(self, batch_id: str) -> _Batch:
        if batch_id not in self._batches:
            raise RequestRefused(f"{batch_id}: not found", status=404, kind="not_found_error")
        return self._batches[batch_id]

    def _describe(self, batch: _Batch, base: str) -> dict[str, Any]:
        ended = time.monotonic() >= batch.due
        count = len(batch.requests)
        failed = sum(result["result"]["type"] == "errored" for result in batch.results)
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        counts |= {"succeeded": count - failed, "errored": failed} if ended else {"processing": count}
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": batch.made_at.isoformat(),
            "expires_at": (batch.made_at + timedelta(days=1)).isoformat(),
            "ended_at": datetime.now(UTC).isoformat() if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{base}/v1/messages/batches/{batch.id}/results" if ended else None,
        }


def _try(play: Play, body: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"type": "succeeded", "message": play(body)}
    except RequestRefused as refusal:
        error = {"type": refusal.kind, "message": refusal.message}
        return {"type": "errored", "error": {"type": "error", "error": error, "request_id": None}}


def _read_requests(body: Any) -> list[dict[str, Any]]:
    requests = body.get("requests") if isinstance(body, dict) else None
    if not isinstance(requests, list) or not 1 <= len(requests) <= _MOST:
        raise RequestRefused(f"requests: a list of 1 to {_MOST} is required")
    names = [request.get("custom_id") for request in requests if isinstance(request, dict)]
    wrong = [name for name in names if not isinstance(name, str) or not 1 <= len(name) <= 64]
    if len(names) != len(requests) or wrong or len(set(names)) != len(names):
        raise RequestRefused("requests: each needs a `custom_id` of 1 to 64 characters, which no other one has")
    if streaming := [request["custom_id"] for request in requests if request.get("params", {}).get("stream")]:
        raise RequestRefused(f"requests: {streaming[0]}: a batch cannot be streamed")
    return requests
