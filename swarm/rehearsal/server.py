"""The rehearsal server: one thread per kept-alive connection; closing it ends all waiting replies."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import deque
from typing import Any, cast

from swarm.core.log import EventLog
from swarm.core.settings import http_address
from swarm.rehearsal import wire
from swarm.rehearsal.connection import RequestRefused, format_response, read_request
from swarm.rehearsal.endpoints import Endpoints
from swarm.rehearsal.ledger import Ledger, RequestRecord
from swarm.rehearsal.provider import Provider
from swarm.rehearsal.scenario import Scenario

_log = EventLog(__name__)


class RehearsalServer:
    """Plays one scenario on one port, from `start` (or `serve_forever`) until `close`.

    The constructor binds the port, so `url` is known at once. `latency_seconds` replaces all latencies of the scenario.
    """

    def __init__(
        self,
        scenario: Scenario,
        host: str = "127.0.0.1",
        port: int = 0,
        latency_seconds: float | None = None,
        *,
        provider: Provider | None = None,
    ) -> None:
        self.scenario = scenario
        self._ledger = Ledger()
        self._closing = threading.Event()
        endpoints = Endpoints(scenario, provider or Provider(), self._ledger, self._closing, latency_seconds)
        self._listener = _Listener((host, port), endpoints)
        self._thread: threading.Thread | None = None
        self._served = False

    @property
    def url(self) -> str:
        """Base URL for clients."""
        host, port = self._listener.server_address[:2]
        return http_address(str(host), int(port))

    @property
    def requests(self) -> deque[RequestRecord]:
        """The latest requests to `/v1/messages`, oldest first."""
        return self._ledger.requests

    @property
    def connections(self) -> int:
        """Connections so far."""
        return self._listener.accepted

    def stats(self) -> dict[str, Any]:
        """Totals: requests (also by status and model), faults, tokens, in flight, unmatched, the provider's."""
        return self._listener.endpoints.stats()

    def start(self) -> RehearsalServer:
        """Serve in a new thread, and return."""
        self._served = True
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.05,), name="rehearsal", daemon=True
        )
        self._thread.start()
        return self

    def serve_forever(self) -> None:
        """Serve in this thread until another one calls `close`."""
        self._served = True
        self._listener.serve_forever(0.05)

    def close(self) -> None:
        """Stop, and break every connection; closing twice is harmless."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._served:  # `shutdown` would wait forever for a loop that never ran
            self._listener.shutdown()
        if self._thread is not None:
            self._thread.join()
        self._listener.server_close()
        self._listener.break_connections()

    def __enter__(self) -> RehearsalServer:
        return self.start()

    def __exit__(self, *failure: object) -> None:
        self.close()


class _Listener(socketserver.ThreadingTCPServer):
    # Not `http.server`: it looks up its own host name when it binds, which can take seconds, and parses slowly.
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], endpoints: Endpoints) -> None:
        self.endpoints = endpoints
        self._connections: set[socket.socket] = set()
        self.accepted = 0
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Connection)

    def remember(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
            self.accepted += 1

    def forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)

    def break_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client has closed it already

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.error("rehearsal.connection_failed", client=client_address)
        super().handle_error(request, client_address)


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    rbufsize = 65_536

    def setup(self) -> None:
        super().setup()
        cast(_Listener, self.server).remember(self.connection)

    def finish(self) -> None:
        cast(_Listener, self.server).forget(self.connection)
        super().finish()

    def handle(self) -> None:
        endpoints = cast(_Listener, self.server).endpoints
        try:
            while self._serve_one(endpoints):
                pass
        except ConnectionError:
            return  # the client is gone, so there is no one to answer

    def _serve_one(self, endpoints: Endpoints) -> bool:
        try:
            request = read_request(self.rfile)
        except RequestRefused as error:
            body = wire.encode_json(wire.build_error(error, "req_unread"))
            self.connection.sendall(format_response(error.status, [("connection", "close")], body))
            return False
        return request is not None and endpoints.serve(request, self.connection.sendall)
