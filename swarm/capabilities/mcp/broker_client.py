"""A worker's connections to its host's broker: JSON over a Unix socket, one connection per running call, reused.

Nothing here knows the protocol of MCP. The client starts the broker when none answers; the broker ends by itself.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarm.capabilities.mcp.places import LOG, SOCKET, STARTING, takes
from swarm.tools.environment import clean_environment

START_SECONDS = 60.0
"""How long a broker may take to listen, on a very busy machine."""
_AGAIN_SECONDS = 20.0
TELL_SECONDS = 5.0
CHECK_SECONDS = 0.5
Event = dict[str, Any]


class BrokerGone(Exception):
    """The broker ended before it answered a request."""

    def __init__(self, *, said: bool) -> None:
        super().__init__("the broker of MCP servers ended")
        self.said = said
        """Whether the request certainly reached a server."""


class BrokerClient:
    """The connections of one process to the broker in a folder. Thread-safe."""

    def __init__(self, folder: Path, idle_seconds: float) -> None:
        self.folder, self._idle_seconds = folder, idle_seconds
        self._free: list[socket.socket] = []
        self._lock = threading.Lock()

    def ask(self, request: Event, check: Callable[[], None] = lambda: None) -> Event:
        """Send a request that has a single event, and return it."""
        for event in self.events(request, check):
            last = event
        return last

    def events(self, request: Event, check: Callable[[], None] = lambda: None) -> Iterator[Event]:
        """Send a request and yield its events.

        Calls `check` about twice a second; an error that it raises ends the call. Replaces a broker that had ended before the request.
        Raises `BrokerGone`.
        """
        connection, fresh = self._take()
        try:
            if not _send(connection, request):
                connection.close()
                if fresh:
                    raise BrokerGone(said=False)
                connection, fresh = self._renew()
                if not _send(connection, request):
                    raise BrokerGone(said=False)
            ended = False
            for event in _read(connection, check):
                ended = "progress" not in event
                yield event
                if ended:
                    break
            if not ended:
                raise BrokerGone(said=True)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._free.append(connection)

    def tell(self, request: Event) -> Event:
        """Send a request to a running broker and return its answer; empty if none runs. Starts none."""
        try:
            with _connect(self.folder) as connection:
                give_up = time.monotonic() + TELL_SECONDS
                if _send(connection, request):
                    return next(_read(connection, lambda: _check_time(give_up)), {})
        except OSError:
            pass
        return {}

    def close(self) -> None:
        """Close the free connections."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _take(self) -> tuple[socket.socket, bool]:
        with self._lock:
            while self._free:
                connection = self._free.pop()
                if not _has_ended(connection):
                    return connection, False
                connection.close()
        return self._renew()

    def _renew(self) -> tuple[socket.socket, bool]:
        self.close()
        with suppress(OSError):
            return _connect(self.folder), True
        give_up, start_at = time.monotonic() + START_SECONDS, 0.0
        # Only the lock's holder starts a broker; if it dies, another process does.
        with open(self.folder / STARTING, "w") as starting:
            while time.monotonic() < give_up:
                with suppress(OSError):
                    return _connect(self.folder), True
                if time.monotonic() > start_at and takes(starting.fileno()):
                    start_broker(self.folder, self._idle_seconds)
                    start_at = time.monotonic() + _AGAIN_SECONDS
                time.sleep(0.02)
        raise BrokerGone(said=False)


def start_broker(folder: Path, idle_seconds: float) -> None:
    """Start a broker that belongs to no worker; it exits at once if another runs."""
    with open(folder / LOG, "ab") as log:
        # The broker's parent exits at once, so no worker has to reap it.
        broker = [sys.executable, "-P", "-m", "swarm.capabilities.mcp.broker", str(folder), str(idle_seconds)]
        subprocess.run(
            ["/bin/sh", "-c", '"$@" & ', "sh", *broker],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=clean_environment(os.environ)
            | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            start_new_session=True,
        )


def _connect(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(folder / SOCKET))
    except OSError:
        connection.close()
        raise
    connection.settimeout(CHECK_SECONDS)
    return connection


def _check_time(give_up: float) -> None:
    if time.monotonic() > give_up:
        raise TimeoutError


def _has_ended(connection: socket.socket) -> bool:
    """Whether the broker closed this free connection: it sends nothing on one."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        with suppress(OSError):
            connection.settimeout(CHECK_SECONDS)


def _send(connection: socket.socket, request: Event) -> bool:
    try:
        connection.settimeout(None)
        connection.sendall(json.dumps(request).encode() + b"\n")
        connection.settimeout(CHECK_SECONDS)
    except OSError:
        return False
    return True


def _read(connection: socket.socket, check: Callable[[], None]) -> Iterator[Event]:
    """Yield lines until the connection ends."""
    kept = bytearray()
    while True:
        try:
            data = connection.recv(1 << 20)
        except TimeoutError:
            check()
            continue
        except OSError:
            return
        if not data:
            return
        kept += data
        while (end := kept.find(b"\n")) >= 0:
            line = bytes(kept[:end])
            del kept[: end + 1]
            yield json.loads(line)
