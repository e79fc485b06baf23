"""The only way out of a box: an HTTP server on a socket, for requests to models and for the hooks of the program in the box.

A request for a model needs the token. The key is added here, so no program in the box ever has it. Replies are passed on while
they stream; the usage of each is noted before its last bytes are sent.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from swarm.capabilities.harnesses.request_budget import RequestBudget, Ticket, TurnedDown
from swarm.core.errors import ConfigurationError, Interrupted, ModelError, SwarmError
from swarm.core.log import EventLog
from swarm.models import RateLimits, Told
from swarm.models.failures import response_failure, retry_after_seconds
from swarm.models.limits import read_limits
from swarm.models.passage import PassedReply, PassedRequest, Wire, encode_refusal, find_wire

if TYPE_CHECKING:
    from email.message import Message
    from io import BufferedIOBase

    from httpx2 import Response

log = EventLog("swarm.harness")
MAX_BODY_BYTES = 64 << 20
_LONGEST_LINE = 1 << 10
"""The most bytes of a line between chunks."""
HOOK = "/hook"
_CHILDREN = ("x-claude-code-agent-id",)
"""Headers by which programs name the agent of their own that asks."""
_TOKENS = ("x-api-key", "x-goog-api-key", "authorization")
"""Headers in which programs show the token."""
_PASSED = ("anthropic-beta",)
"""Headers of requests that are passed on."""
_RETURNED = ("content-type", "request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry")
"""Headers of replies that are passed on."""

Hook = Callable[[dict[str, Any]], dict[str, Any]]
"""Answers a hook of the program in the box; it may take as long as it must."""


class Gateway:
    """One server, for one agent. Each connection has a thread."""

    def __init__(self, budget: RequestBudget, hook: Hook, on_trouble: Callable[[BaseException], None]) -> None:
        """`on_trouble` hears of errors that concern the agent: it was cancelled, or has another owner."""
        self.budget, self.hook, self.token = budget, hook, secrets.token_urlsafe(24)
        self.failure: ModelError | None = None
        """The last failure of the model's server, after which no reply has come."""
        self._on_trouble = on_trouble
        self._servers: list[socketserver.BaseServer] = []
        self._open: set[Response] = set()

    def listen(self, address: Path | int) -> None:
        """Begin to serve, on a socket of the file system or a port of this host's loopback. Raises `OSError`."""
        kind: type[_UnixServer | _TcpServer] = _TcpServer if isinstance(address, int) else _UnixServer
        server = kind(("127.0.0.1", address) if isinstance(address, int) else str(address), _BoxConnection)  # type: ignore[arg-type]
        server.gateway = self
        if isinstance(address, Path):
            os.chmod(address, 0o600)
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.1,), name="harness-gateway", daemon=True).start()

    @property
    def port(self) -> int:
        """The port, of a server on the loopback."""
        return int(cast("Any", self._servers[0]).server_address[1])

    def close(self) -> None:
        """Serve no more. Replies that still come are given up."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for response in list(self._open):
            with contextlib.suppress(Exception):
                response.close()

    @contextlib.contextmanager
    def passing(self, response: Response) -> Iterator[Response]:
        """Mark a reply as under way."""
        self._open.add(response)
        try:
            yield response
        finally:
            self._open.discard(response)
            response.close()

    def tell_trouble(self, error: BaseException) -> None:
        """Report an error that concerns the agent."""
        self._on_trouble(error)


class _BoxConnection(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _UnixServer

    def address_string(self) -> str:
        return "box"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the journal has it all."""

    def do_POST(self) -> None:
        try:
            body = read_body(self.headers, self.rfile)
        except ValueError as error:
            self.close_connection = True
            return self._refuse(None, TurnedDown(413, "request_too_large", str(error)))
        if self.path == HOOK:
            return self._answer_hook(body)
        wire = find_wire(self.path)
        if wire is None:
            return self._refuse(None, TurnedDown(404, "not_found_error", f"{self.path} is not passed on"))
        if not self._may_ask():
            return self._refuse(wire, TurnedDown(401, "authentication_error", "the token is not the one of this agent"))
        try:
            request = PassedRequest(wire, body, self.path)
        except ValueError as error:
            return self._refuse(wire, TurnedDown(400, "invalid_request_error", str(error)))
        child = next((self.headers[name] for name in _CHILDREN if self.headers.get(name)), "")
        try:
            admitted = self._gateway.budget.admit(request, child)
            if isinstance(admitted, TurnedDown):
                return self._refuse(wire, admitted)
            self._pass(request, admitted)
        except (SwarmError, Interrupted) as error:
            self.close_connection = True
            self._gateway.tell_trouble(error)
            self._refuse(wire, TurnedDown(402, "billing_error", "the agent has ended"))

    def do_GET(self) -> None:
        self._refuse(None, TurnedDown(404, "not_found_error", f"{self.path} is not passed on"))

    def do_HEAD(self) -> None:
        self._send(200, b"")

    @property
    def _gateway(self) -> Gateway:
        return self.server.gateway

    def _may_ask(self) -> bool:
        given = next((self.headers[name] for name in _TOKENS if self.headers.get(name)), "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self._gateway.token.encode())

    def _answer_hook(self, body: bytes) -> None:
        try:
            told = json.loads(body)
        except ValueError:
            return self._refuse(None, TurnedDown(400, "invalid_request_error", "the hook's input is no JSON"))
        self._send(200, json.dumps(self._gateway.hook(told) if isinstance(told, dict) else {}).encode())

    # -- a model's reply ------------------------------------------------------------------------------------------

    def _pass(self, request: PassedRequest, ticket: Ticket) -> None:
        try:
            self._ask_model(request, ticket)
        finally:
            # A failure before the server has answered: nothing is owed.
            self._gateway.budget.settle(ticket, None, 0, RateLimits())

    def _ask_model(self, request: PassedRequest, ticket: Ticket) -> None:
        budget = self._gateway.budget
        headers = {name: self.headers[name] for name in _PASSED if self.headers.get(name)}
        try:
            response = budget.model.pass_on(ticket.model, request, ticket.room, headers)
        except (ModelError, ConfigurationError) as error:
            budget.settle(ticket, None, 0, RateLimits())
            self._note_failure(error)
            return self._refuse(request.wire, TurnedDown(503, "api_error", str(error)))
        except (TypeError, ValueError) as error:
            budget.settle(ticket, None, 0, RateLimits())
            why = f"the request cannot be passed on: {error}"
            return self._refuse(request.wire, TurnedDown(400, "invalid_request_error", why))
        with self._gateway.passing(response):
            if response.status_code >= 300:
                return self._pass_refusal(request, ticket, response)
            self._relay(request, ticket, response)

    def _pass_refusal(self, request: PassedRequest, ticket: Ticket, response: Response) -> None:
        data, told = b"", response.headers
        with contextlib.suppress(Exception):  # its status and headers say enough
            data = response.read()
        try:
            about: object = json.loads(data)
        except ValueError:
            about = data.decode(errors="replace")
        after = retry_after_seconds(told, time.time()) or 0.0
        self._gateway.budget.settle(ticket, None, response.status_code, read_limits(told), after=after)
        failure = response_failure(
            response.status_code, told, about, model=ticket.model, provider="anthropic", aliases="", now=time.time()
        )
        self._note_failure(failure)
        self._send(response.status_code, data, {name: told[name] for name in _RETURNED if name in told})

    def _relay(self, request: PassedRequest, ticket: Ticket, response: Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0]
        reply = PassedReply(request.wire, ticket.model, whole=kind != "text/event-stream")
        whole = False
        try:
            self.send_response(response.status_code)
            for name in _RETURNED:
                if name in response.headers:
                    self.send_header(name, response.headers[name])
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for chunk in response.iter_bytes():
                reply.read(chunk)
                if reply.has_ended and not ticket.settled:
                    self._settle(ticket, reply.end(), response)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            whole = True
            if not ticket.settled:
                self._settle(ticket, reply.end(), response)
            self.wfile.write(b"0\r\n\r\n")
        except (SwarmError, Interrupted):
            raise
        except Exception as error:  # of the server, whose stream was cut, or of the program, which is gone
            self.close_connection = True
            log.info("harness.cut", whole=whole, error=repr(error))
        finally:
            if not ticket.settled and (told := reply.end()) is not None:
                self._settle(ticket, told, response)
            # Nothing could be read of a reply that the server has begun.
            self._gateway.budget.lose(ticket)

    def _settle(self, ticket: Ticket, told: Told | None, response: Response) -> None:
        self._gateway.failure = None
        self._gateway.budget.settle(ticket, told, response.status_code, read_limits(response.headers))

    def _note_failure(self, error: ModelError | ConfigurationError) -> None:
        if isinstance(error, ModelError):
            self._gateway.failure = error

    # -- answers --------------------------------------------------------------------------------------------------

    def _refuse(self, wire: Wire | None, refusal: TurnedDown) -> None:
        with contextlib.suppress(OSError):
            body = encode_refusal(wire, refusal.status, refusal.kind, refusal.message)
            self._send(refusal.status, body, {"x-should-retry": "false"})

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def read_body(headers: Message, stream: BufferedIOBase) -> bytes:
    """Read the body of a request, of at most `MAX_BODY_BYTES`. Raises `ValueError` for a longer one or an unreadable length."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return stream.read(_within(int(headers.get("content-length") or 0), MAX_BODY_BYTES))
    body = bytearray()
    while size := _within(
        int(stream.readline(_LONGEST_LINE).partition(b";")[0] or b"0", 16), MAX_BODY_BYTES - len(body)
    ):
        body += stream.read(size)
        stream.readline(_LONGEST_LINE)
    stream.readline(_LONGEST_LINE)
    return bytes(body)


def _within(size: int, most: int) -> int:
    if not 0 <= size <= most:
        raise ValueError(f"a request has at most {MAX_BODY_BYTES:,} bytes, and no negative length")
    return size


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    gateway: Gateway

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, _ = super().get_request()
        return connection, ("box", 0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A program that is gone is no error."""


class _TcpServer(_UnixServer):
    address_family = socket.AF_INET
    allow_reuse_address = True

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)
