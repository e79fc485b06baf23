"""Celery's connection to Redis: one client for many commands, and only readable entries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from celery.app.amqp import AMQP
from celery.app.control import Control
from kombu import Connection
from kombu.connection import ConnectionPool, PooledConnection
from kombu.utils.encoding import bytes_to_str
from redis import Redis

from swarm.core.errors import PayloadRefused
from swarm.store.broadcasts import PrefixedMailbox
from swarm.tasks.entries import log_refusal, read_entry


class _Client(Redis):
    """A client that passes only messages from a queue. It drops and logs any other entry."""

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        reply = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        return None if command_name == "BRPOP" and reply and not _is_message(reply[1]) else reply


def _is_message(raw: bytes) -> bool:
    try:
        read_entry(raw)
    except PayloadRefused as error:
        log_refusal(error)
        return False
    return True


@cache
def sparing(channel: type[Any]) -> type[Any]:
    """Make the transport's channel keep its Redis client.

    Kombu makes a client for each message sent: a fifth of a process's calls from a spawn to its park. All clients are alike. Only their
    connections differ, and those still come from the channel's pool.
    """

    class Sparing(channel):  # type: ignore[misc]
        _spared: Any = None

        def _get_client(self) -> type[Redis]:
            return _Client

        def _handle_message(self, client: Any, reply: Any) -> Any:
            """Handle a broadcast. Kombu ignores one without data."""
            said = super()._handle_message(client, reply)
            if said and bytes_to_str(said["type"]).endswith("message") and not _is_message(said["data"]):
                said["data"] = None
            return said

        def _create_client(self, asynchronous: bool = False) -> Any:
            if asynchronous:
                return super()._create_client(asynchronous=True)
            pool = self.pool
            if self._spared is None or self._spared.connection_pool is not pool:
                self._spared = super()._create_client()
            return self._spared

        @contextmanager
        def together(self) -> Iterator[None]:
            """Send the messages that are put meanwhile in one round trip."""
            client = self._create_client()
            self._spared = client.pipeline(transaction=False)
            try:
                yield
                self._spared.execute()
            finally:
                self._spared = client

    return Sparing


class _SparingTransport:
    """Makes a connection's transport with channels that keep their client."""

    def create_transport(self) -> Any:
        """Make the transport of the connection's URL."""
        transport = super().create_transport()  # type: ignore[misc]
        if hasattr(transport.Channel, "_create_client"):
            transport.Channel = sparing(transport.Channel)
        return transport


class _SparingPooledConnection(_SparingTransport, PooledConnection):  # type: ignore[misc]
    pass


class _SparingPool(ConnectionPool):  # type: ignore[misc]
    def new(self) -> PooledConnection:
        """Make one more connection. Kombu's own pool names its class."""
        return _SparingPooledConnection(self, **dict(self.connection._info(resolve=False)))


class SparingConnection(_SparingTransport, Connection):  # type: ignore[misc]
    """A connection whose channels keep their client, as do those of its pool."""

    def Pool(self, limit: int | None = None, **options: Any) -> ConnectionPool:
        """Make a pool of such connections."""
        return _SparingPool(self, limit, **options)


class SparingAMQP(AMQP):  # type: ignore[misc]
    """Makes connections whose channels keep their client."""

    Connection = SparingConnection
    BrokerConnection = SparingConnection


class PrefixedControl(Control):  # type: ignore[misc]
    """Broadcasts whose queues have the swarm's prefix."""

    Mailbox = PrefixedMailbox
