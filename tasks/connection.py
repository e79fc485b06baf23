"""Celery's connection to Redis, without a new client for each command."""

from __future__ import annotations

from functools import cache
from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection


@cache
def sparing(channel: type[Any]) -> type[Any]:
    """The transport's channel, but it keeps the client that it talks to Redis through.

    Kombu makes one for each message that is sent, taken or acknowledged, a sixth of what a worker's main process does. All of them
    are alike: what differs are the connections, which they take from the channel's pool, and that stays as it is.
    """

    class Sparing(channel):  # type: ignore[misc]
        _spared: Any = None

        def _create_client(self, asynchronous: bool = False) -> Any:
            if asynchronous:
                return super()._create_client(asynchronous=True)
            pool = self.pool
            if self._spared is None or self._spared.connection_pool is not pool:
                self._spared = super()._create_client()
            return self._spared

    return Sparing


class SparingConnection(Connection):  # type: ignore[misc]
    """A connection whose channels are sparing."""

    def create_transport(self) -> Any:
        """The transport of its URL."""
        transport = super().create_transport()
        if hasattr(transport.Channel, "_create_client"):
            transport.Channel = sparing(transport.Channel)
        return transport


class SparingAMQP(AMQP):  # type: ignore[misc]
    """Makes connections that are sparing."""

    Connection = SparingConnection
    BrokerConnection = SparingConnection
