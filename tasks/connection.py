"""Celery's connection to Redis: one client for many commands, and only readable entries."""

from __future__ import annotations

from functools import cache
from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import redis
from kombu.utils.encoding import bytes_to_str
from redis import Redis

from swarm.core.errors import PayloadRefused
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


class _QoS(redis.QoS):  # type: ignore[misc]
    """Kombu's record of unacknowledged messages, which forgets unreadable ones."""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        try:
            super().restore_by_tag(tag, client, leftmost)
        except (ValueError, TypeError, RecursionError) as error:
            self._remove_from_indices(tag).execute()
            log_refusal(PayloadRefused(f"a kept message that cannot be read: {type(error).__name__}"))


@cache
def sparing(channel: type[Any]) -> type[Any]:
    """Make the transport's channel keep its Redis client.

    Kombu makes a client for each message sent, taken or acknowledged: a sixth of the main process's work. All clients are alike. Only
    their connections differ, and those still come from the channel's pool.
    """

    class Sparing(channel):  # type: ignore[misc]
        QoS = _QoS
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

    return Sparing


class SparingConnection(Connection):  # type: ignore[misc]
    """A connection whose channels keep their client."""

    def create_transport(self) -> Any:
        """Make the transport of the connection's URL."""
        transport = super().create_transport()
        if hasattr(transport.Channel, "_create_client"):
            transport.Channel = sparing(transport.Channel)
        return transport


class SparingAMQP(AMQP):  # type: ignore[misc]
    """Makes connections whose channels keep their client."""

    Connection = SparingConnection
    BrokerConnection = SparingConnection
