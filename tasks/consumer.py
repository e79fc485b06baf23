"""Celery's consumer, which a Redis at its limits does not stop: it goes on as soon as Redis does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from celery.worker import consumer
from redis.exceptions import ResponseError

EVENTS_EVERY_SECONDS = 0.1
"""How long events wait for others to be sent with."""
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
