"""Celery's consumer, which survives a Redis at its limits and continues when Redis does.

Its memory does not grow with the number of tasks run. Celery sets a timer for each task's time limit. When the task ends, the timer is
only marked and stays in memory (about half a KiB) until it is due. With a limit of 40 minutes, timers of the last 40 minutes pile up.

A mark in Redis, or a fault of its own, drains a host. Its workers take no agents and hand over the running ones, but keep running, and
take agents again when the mark is removed or the fault is over. Each checks that when it renews its leases.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from celery import bootsteps
from celery.worker import consumer
from celery.worker.consumer.consumer import logger
from kombu.asynchronous.timer import Timer
from redis import ResponseError

from swarm.core.errors import PayloadRefused
from swarm.core.log import EventLog
from swarm.tasks import heartbeat, host, process
from swarm.tasks.entries import check_wake_up, log_refusal
from swarm.tasks.fetcher import own_queue

log = EventLog("swarm.draining")
EVENTS_EVERY_SECONDS = 0.1
"""How long events wait to be sent together."""
FORGET_EVERY_SECONDS = 30.0
LONGEST_RETRY_SECONDS = 5.0
"""Longest pause between attempts to reach the broker. Celery's own pauses grow to 30 s."""


class Consumer(consumer.Consumer):  # type: ignore[misc]
    """Used by every worker, through the setting `worker_consumer`."""

    connection_errors: tuple[type[BaseException], ...]
    _flushes = False

    def __init__(self, *args: Any, worker_options: Mapping[str, Any] | None = None, **options: Any) -> None:
        # Workers share their state in Redis. Celery's own exchange, on a reconnect, also reads the pipe of a pool process
        # that has just died as if it were a connection, and that ends the worker.
        alone = {**(worker_options or {}), "without_mingle": True, "without_gossip": True}
        super().__init__(*args, worker_options=alone, **options)
        # A Redis that is busy, full, demoted or loading says so. To Celery that is unrecoverable and no lost connection: the worker
        # would stay, and never take a message again.
        self.connection_errors = (*self.connection_errors, ResponseError)

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], None]:
        """Handle messages as Celery does, but refuse any that is no wake-up."""
        take = super().create_task_handler(*args, **options)

        def take_wake_up(message: Any) -> None:
            try:
                check_wake_up(message)
            except PayloadRefused as error:
                log_refusal(error)
                message.reject_log_error(logger, self.connection_errors)
            else:
                take(message)

        return take_wake_up

    def on_send_event_buffered(self) -> None:
        """Collect events briefly and send them together. Celery sends them after each look for work."""
        if self.hub and not self._flushes:
            self._flushes = True
            self.hub.call_later(EVENTS_EVERY_SECONDS, self._flush)

    def _flush(self) -> None:
        self._flushes = False
        self._flush_events()

    def ensure_connected(self, conn: Any) -> Any:
        """Establish a connection, however long that takes."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_max=LONGEST_RETRY_SECONDS)
        return super().ensure_connected(conn)


def forget_cancelled(timer: Timer) -> None:
    """Remove cancelled timers. Only for the event loop's own thread."""
    # In place: a waiter for the next timer holds this list.
    timer._queue[:] = [due for due in timer._queue if not due.entry.canceled]
    heapq.heapify(timer._queue)


class TimerCare(bootsteps.StartStopStep):  # type: ignore[misc]
    """Removes cancelled timers regularly."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **_: Any) -> None:
        self._repeated: Any = None

    def include_if(self, consumer: Any) -> bool:
        """Include this step only with an event loop: nothing else keeps such timers."""
        return consumer.hub is not None

    def start(self, consumer: Any) -> None:
        """Start with the consumer."""
        timer = consumer.hub.timer
        self._repeated = timer.call_repeatedly(FORGET_EVERY_SECONDS, forget_cancelled, (timer,))

    def stop(self, consumer: Any) -> None:
        """Stop when the consumer closes its connection."""
        if self._repeated is not None:
            self._repeated.cancel()
            self._repeated = None


def obey_drain(worker: Any) -> None:
    """Read the drain mark and the host's faults, and start or stop draining this worker. Called in the main process."""
    runtime = process.runtime()
    sickness = host.explain_sickness()
    wanted = bool(sickness) or runtime.store.fleet.is_drained(*heartbeat.names())
    ours = getattr(worker, "consumer", None)
    if ours is None or getattr(ours, "task_consumer", None) is None or not process.set_aside(wanted):
        return
    queues = (runtime.settings.key_prefix, own_queue())
    if not wanted:
        # For a reconnect before or during the following steps.
        ours.app.amqp.queues.select(queues)
    for queue in queues:
        # The consumer may be used on its own thread only.
        ours.call_soon(ours.cancel_task_queue if wanted else ours.add_task_queue, queue)
    heartbeat.announce()
    if sickness:
        log.error("worker.sick", why=sickness, effect="its agents are left to other hosts")
    else:
        log.info("worker.set_aside" if wanted else "worker.back", worker=process.worker_name())
