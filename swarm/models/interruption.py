"""Ends a model request that another thread waits for, by shutting its connection down.

A pool process is interrupted by a signal. Of the threads of one process only the main one receives signals.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from httpcore2 import NetworkBackend, NetworkStream
    from httpx2 import Client

_reading: dict[int, socket.socket] = {}
"""The socket that each thread reads from."""


def interrupt_reading(thread: int) -> None:
    """Make the read of the thread with this identifier fail, if it reads from the model's server."""
    if (sock := _reading.get(thread)) is not None:
        with suppress(OSError):
            # The method of a plain socket: that of TLS would change the state which the reader uses.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def make_interruptible(client: Client) -> None:
    """Note which thread reads from which connection of this client."""
    for transport in (client._transport, *client._mounts.values()):
        if (pool := getattr(transport, "_pool", None)) is not None:
            pool._network_backend = _NotingBackend(pool._network_backend)


class _NotingBackend:
    """Opens connections whose reader is noted."""

    def __init__(self, inner: NetworkBackend) -> None:
        self._inner, self.sleep = inner, inner.sleep

    def connect_tcp(self, *args: Any, **options: Any) -> _Line:
        return _Line(self._inner.connect_tcp(*args, **options))


class _Line:
    """A connection whose reader is noted."""

    def __init__(self, inner: NetworkStream) -> None:
        self._inner = inner
        self.write, self.close, self.get_extra_info = inner.write, inner.close, inner.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        thread = threading.get_ident()
        _reading[thread] = self._inner.get_extra_info("socket")
        try:
            return self._inner.read(max_bytes, timeout)
        finally:
            del _reading[thread]

    def start_tls(self, *args: Any, **options: Any) -> _Line:
        return _Line(self._inner.start_tls(*args, **options))
