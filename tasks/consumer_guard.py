"""Checks that the broker's connection brings messages. A silent one costs only a second.

Guarantees: a silently closed connection is replaced within about a second, and messages lost on it are sent again.
The worker's processes also drop other connections opened before that.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import bootsteps
from celery.worker import state as worker_state

from swarm.core.errors import PayloadRefused
from swarm.core.log import EventLog
from swarm.store.store import Store
from swarm.tasks import process
from swarm.tasks.app import app
from swarm.tasks.entries import read_entry
from swarm.tasks.publish import publish_agents

log = EventLog("swarm.listening")
ASK_SECONDS = 0.5
"""Longest wait of Redis before it answers with no message: a sign of a live connection."""
LOOK_SECONDS = 0.2
SILENT_LOOKS = 5
"""Looks in a row without an answer after which a connection counts as closed.

Looks, not seconds: a worker that was suspended or starved has looked once."""
DEAF_LOOKS = 3
"""Looks in a row, a second apart, at waiting messages before a worker with room reconnects."""

_deaf = threading.Event()
_line: _BrokerConnection | None = None


class _BrokerConnection:
    """The consumer's current connection for messages."""

    def __init__(self, consumer: Any) -> None:
        transport = consumer.connection.transport
        self._consumer, self._poller = consumer, transport.cycle
        self._answered, self._silent = False, 0
        transport.brpop_timeout = ASK_SECONDS
        for channel in self._poller._channels:
            channel.brpop_timeout = ASK_SECONDS
        read = self._poller.on_readable

        def on_readable(fileno: int) -> Any:
            self._answered = self._answered or self._poller.fds[fileno][1] == "BRPOP"
            return read(fileno)

        self._poller.on_readable = on_readable

    def is_silent(self) -> bool:
        """Whether Redis has missed enough looks. Called by another thread, at intervals."""
        waiting = [channel._in_poll for channel in list(self._poller._channels) if channel._in_poll]
        sockets = [connection._sock for connection in waiting if connection._sock is not None]
        answered, self._answered = self._answered, False
        # Data that the main process has not read yet counts as an answer.
        if answered or not sockets or _readable(sockets):
            self._silent = 0
        else:
            self._silent += 1
        return self._silent > 0 and self._silent % SILENT_LOOKS == 0

    def hang_up(self) -> None:
        """Shut the consumer's connections down, so that pending reads fail and it reconnects."""
        events = self._consumer.event_dispatcher
        for connection in filter(None, (self._consumer.connection, events and events.connection)):
            for channel in list(connection.transport.channels):
                for pool in filter(None, (channel._pool, channel._async_pool)):
                    process.hang_up(pool)


def _readable(sockets: list[socket.socket]) -> bool:
    poll = select.poll()
    for one in sockets:
        with suppress(OSError, ValueError):
            poll.register(one, select.POLLIN)
    return bool(poll.poll(0))


class ReconnectGuard(bootsteps.StartStopStep):  # type: ignore[misc]
    """Reconnects to the broker when the current connection can bring no more messages.

    A client that finds its connection broken before first use silently makes another one. Kombu notices the end, stops asking for messages
    and ignores the new connection. A connection may also end without any notice.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **_: Any) -> None:
        self._on_tick: set[Callable[[], None]] = set()
        self._asking: set[Callable[[], None]] = set()

    def include_if(self, consumer: Any) -> bool:
        """Include this step only with an event loop: the thread pool asks each time."""
        return consumer.hub is not None

    def start(self, consumer: Any) -> None:
        """Start with the consumer's new connection."""
        global _line
        self._on_tick = consumer.hub.on_tick
        self._asking = {callback for callback in self._on_tick if callback.__module__ == "kombu.transport.redis"}
        self._on_tick.add(self._check)
        _line = _BrokerConnection(consumer)

    def stop(self, consumer: Any) -> None:
        """Stop when the consumer closes its connection."""
        global _line
        self._on_tick.discard(self._check)
        _line = None

    def _check(self) -> None:
        if not self._asking <= self._on_tick:
            raise ConnectionError("the connection was replaced by one that no consumer reads")
        if _deaf.is_set():
            _deaf.clear()
            raise ConnectionError("messages wait in Redis, and the connection brings none")


app.steps["consumer"].add(ReconnectGuard)


class Hearing:
    """Detects a deaf worker: messages wait, a process is free, but none has arrived lately."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._came = self._silent = 0

    def __call__(self) -> None:
        if process.draining():
            return  # a leaving worker takes no messages, and soon has no pool
        runtime, came = process.runtime(), worker_state.all_total_count[0]
        free = self._pool.num_processes - len(worker_state.reserved_requests)
        queued = runtime.store.fleet.queue_length(runtime.settings.key_prefix)
        may_be_deaf = free > 0 and came == self._came and queued > 0
        self._came, self._silent = came, self._silent + 1 if may_be_deaf else 0
        if self._silent >= DEAF_LOOKS:
            self._silent = 0
            _deaf.set()


class Silence:
    """Ends silent connections, and sends messages again that were lost on them."""

    def __init__(self) -> None:
        self._swallowed = False

    def __call__(self) -> None:
        line = _line
        # A drained worker asks for nothing, so Redis sends it nothing.
        if line is not None and line.is_silent() and not process.is_set_aside():
            log.warning("connection.silent", effect="the worker reconnects")
            self._swallowed = True
            process.drop_connections()
            line.hang_up()
        if self._swallowed:
            self._send_again()

    def _send_again(self) -> None:
        runtime = process.runtime()
        queued = set(list_queued(runtime.store, runtime.settings.key_prefix))
        lost = [agent_id for agent_id in runtime.store.leases.called() if agent_id not in queued]
        if lost:
            publish_agents(app, runtime.store, runtime.store.agents.hints(lost))
            log.warning("messages.sent_again", agents=len(lost))
        self._swallowed = False


def list_queued(store: Store, queue: str) -> list[str]:
    """List agents with queued messages, for all workers or one; few are sent at a time."""
    found = []
    for raw in store.fleet.queued(queue):
        # The reader of an invalid entry refuses it.
        with suppress(PayloadRefused):
            found.append(str(read_entry(raw).headers.get("id")))
    return found
