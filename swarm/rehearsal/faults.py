"""Selection of faults for requests; it is deterministic for a given order of requests."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from swarm.rehearsal.conversation import Conversation
from swarm.rehearsal.scenario import Fault
from swarm.rehearsal.script import match

ERRORS: dict[str, tuple[int, str, str]] = {
    "400": (400, "invalid_request_error", "This request was refused, as rehearsed."),
    "401": (401, "authentication_error", "This key was refused, as rehearsed."),
    "403": (403, "permission_error", "This key may not use that, as rehearsed."),
    "429": (429, "rate_limit_error", "This request would exceed the rate limit, as rehearsed."),
    "500": (500, "api_error", "Internal server error, as rehearsed."),
    "529": (529, "overloaded_error", "Overloaded, as rehearsed."),
    "compaction_unavailable": (529, "overloaded_error", "Compaction is temporarily unavailable, as rehearsed."),
    "spend_limit": (429, "rate_limit_error", "The monthly spend limit has been reached, as rehearsed."),
}
"""Faults that replace the reply: status, error type, message."""


class FaultPlan:
    """A scenario's faults, with their counts so far."""

    def __init__(self, faults: tuple[Fault, ...], seed: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, 0.0
        self._faults = faults
        self._seen = [0] * len(faults)
        self._struck = [0] * len(faults)
        self._chances = [random.Random(f"{seed}/{index}") for index in range(len(faults))]
        self._lock = threading.Lock()

    def pick(self, conversation: Conversation) -> Fault | None:
        """Pick the first due fault for this request, if any. Every fault counts every request."""
        if not self._faults:
            return None
        with self._lock:
            self._began = self._began or self._clock()
            due = [index for index in range(len(self._faults)) if self._is_due(index, conversation)]
            if not due:
                return None
            self._struck[due[0]] += 1
            return self._faults[due[0]]

    def _is_due(self, index: int, conversation: Conversation) -> bool:
        fault = self._faults[index]
        if fault.kind == "compaction_unavailable" and not conversation.summarizing:
            return False
        if match(fault.when, conversation) is None:
            return False
        passed = self._clock() - self._began
        if fault.between is not None and not fault.between[0] <= passed < fault.between[1]:
            return False
        self._seen[index] += 1
        number = self._seen[index] - fault.after
        if number <= 0 or (fault.times is not None and self._struck[index] >= fault.times):
            return False
        if fault.every is not None and number % fault.every != 0:
            return False
        return fault.probability is None or self._chances[index].random() < fault.probability
