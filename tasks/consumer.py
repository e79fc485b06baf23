"""Celery's consumer, which a Redis at its limits does not stop: it goes on as soon as Redis does.

Its memory does not grow with the tasks that were run. Celery sets a timer for each task's time limit; when the task ends the timer is
only marked, and stays in memory (about half a KiB) until it would have been due: with a limit of 40 minutes, those of all tasks of the
last 40 minutes.

A host is left free by a mark in Redis: its workers take no agents, hand over those that they run, and stay, until they may again. So a
worker that is started there meanwhile obeys it, too; each looks when it renews its leases.
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
from swarm.tasks import heartbeat, process
from swarm.tasks.entries import check_wake_up, log_refusal
from swarm.tasks.fetcher import own_queue

log = EventLog("swarm.draining")
EVENTS_EVERY_SECONDS = 0.1
"""How long events wait for others to be sent with."""
FORGET_EVERY_SECONDS = 30.0
LONGEST_RETRY_SECONDS = 5.0
"""Between two attempts to reach a broker that is away; Celery's own waits grow to 30 s."""


class Consumer(consumer.Consumer):  # type: ignore[misc]
    """Used by every worker, through the setting `worker_consumer`."""

    connection_errors: tuple[type[BaseException], ...]
    _flushes = False

    def __init__(self, *args: Any, worker_options: Mapping[str, Any] | None = None, **options: Any) -> None:
        # Workers compare notes in Redis. To ask the others, when a lost connection is made anew, also reads the pipe of a pool process
        # that has just died as if it were a connection, and the worker ends of it.
        alone = {**(worker_options or {}), "without_mingle": True, "without_gossip": True}
        super().__init__(*args, worker_options=alone, **options)
        # A Redis that is busy, full, demoted or loading says so: to Celery no loss of a connection but unrecoverable. The worker
        # would stay, and never take a message again.
        self.connection_errors = (*self.connection_errors, ResponseError)

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], None]:
        """What takes each message that was read: a wake-up as Celery does, and it refuses any other."""
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
        """Send the events of a while together. Celery sends them each time that it has looked for something to do."""
        if self.hub and not self._flushes:
            self._flushes = True
            self.hub.call_later(EVENTS_EVERY_SECONDS, self._flush)

    def _flush(self) -> None:
        self._flushes = False
        self._flush_events()

    def ensure_connected(self, conn: Any) -> Any:
        """A connection that is established, however long that takes."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_max=LONGEST_RETRY_SECONDS)
        return super().ensure_connected(conn)


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
        self._repeated = timer.call_repeatedly(FORGET_EVERY_SECONDS, forget_cancelled, (timer,))

    def stop(self, consumer: Any) -> None:
        """The consumer closes its connection."""
        if self._repeated is not None:
            self._repeated.cancel()
            self._repeated = None


def obey_drain(worker: Any) -> None:
    """Read the mark, and begin or end to leave this worker free. Called in the main process."""
    runtime = process.runtime()
    wanted = runtime.store.fleet.is_drained(*heartbeat.names())
    ours = getattr(worker, "consumer", None)
    if ours is None or getattr(ours, "task_consumer", None) is None or not process.set_aside(wanted):
        return
    queues = (runtime.settings.key_prefix, own_queue())
    if not wanted:
        # For a connection that is made anew before, or instead of, what follows.
        ours.app.amqp.queues.select(queues)
    for queue in queues:
        # Its own thread does it: the consumer is nobody else's.
        ours.call_soon(ours.cancel_task_queue if wanted else ours.add_task_queue, queue)
    heartbeat.announce()
    log.info("worker.set_aside" if wanted else "worker.back", worker=process.worker_name())
