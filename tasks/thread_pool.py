"""The pool of threads (`-P threads`): many agents in one process, which share its memory.

Each segment runs on a thread of its own. Celery's own pool reports an end on that thread, while the consumer's event loop sleeps and takes
the next agent up to two seconds later; and it has no time limit. Here the loop is woken, and makes all reports itself.

A thread cannot be killed. At the hard limit its agent's claim ends, and another thread takes its place.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from celery.concurrency import get_implementation, thread
from celery.concurrency.base import BasePool, apply_target
from celery.worker import state

from swarm.core.errors import ConfigurationError
from swarm.core.log import EventLog
from swarm.tasks import process

log = EventLog("swarm.threads")
LOOK_SECONDS = 1.0
"""Interval between looks for agents beyond their time limit."""


@dataclass(frozen=True)
class _Job:
    """One segment on its thread."""

    agent_id: str
    ends_at: float
    on_timeout: Callable[[bool, float], object]


class ThreadPool(BasePool):  # type: ignore[misc]
    """Runs each segment on a thread of its own, as many at once as the consumer takes."""

    body_can_be_buffer = True
    signal_safe = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timeout: float = self.options["timeout"]
        self._jobs: dict[int, _Job] = {}
        self._number = 0
        self._reports: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._looks: Any = None

    def register_with_event_loop(self, hub: Any) -> None:
        """Let the event loop make reports and look at time limits. Called at each connection."""
        hub.add_reader(self._bell, self._hear)
        if self._looks is not None:
            self._looks.cancel()
        self._looks = hub.call_repeatedly(LOOK_SECONDS, self._end_overdue)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Start a segment. Called by the event loop."""
        self._number += 1
        number, agent_id = self._number, str(options["correlation_id"])
        options["accept_callback"](os.getpid(), time.monotonic())
        report = partial(self._report, number, options["callback"])
        name, given = f"agent-{agent_id}", (target, args, kwargs, report)
        self._jobs[number] = _Job(agent_id, time.monotonic() + self._timeout, options["timeout_callback"])
        threading.Thread(target=apply_target, args=given, name=name, daemon=True).start()

    def _report(self, number: int, callback: Callable[[Any], object], result: Any) -> None:
        """Leave a result to the event loop. Called by the segment's thread."""
        self._reports.put(partial(self._close, number, callback, result))
        os.eventfd_write(self._bell, 1)

    def _close(self, number: int, callback: Callable[[Any], object], result: Any) -> None:
        # Without its job the segment was given up at its time limit, which has been reported.
        if self._jobs.pop(number, None) is not None:
            callback(result)

    def _hear(self) -> None:
        os.eventfd_read(self._bell)
        while not self._reports.empty():
            self._reports.get_nowait()()

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for number, job in [(number, job) for number, job in self._jobs.items() if job.ends_at < now]:
            del self._jobs[number]
            log.error(
                "agent.hung", agent_id=job.agent_id, seconds=self._timeout, effect="its thread remains until it returns"
            )
            process.stop_here(job.agent_id)
            job.on_timeout(False, self._timeout)

    def terminate_job(self, pid: int, signal: object = None) -> None:
        """Do nothing: a cold stop ends all threads with their process."""

    def on_stop(self) -> None:
        """Wait until every agent has been handed over, except at a cold stop.

        The event loop has ended, so reports are made here.
        """
        while self._jobs and not state.should_terminate:
            try:
                self._reports.get(timeout=LOOK_SECONDS)()
            except Empty:
                self._end_overdue()


def choose_pool(name: Any) -> Any:
    """Choose the class of the pool with this name or Celery class. Raises `ConfigurationError` for a pool of greenlets."""
    asked = get_implementation(name)
    if asked is thread.TaskPool:
        return ThreadPool
    if asked.is_green:
        name = asked.__module__.rsplit(".", 1)[-1]
        raise ConfigurationError(f"pool {name}: a worker renews leases on threads. Use -P prefork or -P threads")
    return asked
