"""A worker's memory does not grow with the tasks that it has run.

Celery sets a timer for each task's time limit. When the task ends the timer is only marked, and stays in memory (about half a KiB)
until it would have been due: with a limit of 40 minutes, those of all tasks of the last 40 minutes.
"""

from __future__ import annotations

import heapq
from typing import Any

from celery import bootsteps
from kombu.asynchronous.timer import Timer

EVERY_SECONDS = 30.0


def forget_cancelled(timer: Timer) -> None:
    """Take out what will never be called. Only for the event loop's own thread."""
    # The same list: whoever waits for the next timer holds it.
    timer._queue[:] = [due for due in timer._queue if not due.entry.canceled]
    heapq.heapify(timer._queue)


class TimerCare(bootsteps.StartStopStep):  # type: ignore[misc]
    """Forgets cancelled timers every now and then."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **_: Any) -> None:
        self._repeated: Any = None

    def include_if(self, consumer: Any) -> bool:
        """Only an event loop keeps such timers."""
        return consumer.hub is not None

    def start(self, consumer: Any) -> None:
        """The consumer begins."""
        timer = consumer.hub.timer
        self._repeated = timer.call_repeatedly(EVERY_SECONDS, forget_cancelled, (timer,))

    def stop(self, consumer: Any) -> None:
        """The consumer closes its connection."""
        if self._repeated is not None:
            self._repeated.cancel()
            self._repeated = None
