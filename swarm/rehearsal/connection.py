"""HTTP/1.1 on one connection: read requests, write responses.

`http.server` is not used, because its header parsing alone costs more than the rest of a request here.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from http import HTTPStatus
from typing import Any, NamedTuple

from swarm.core.errors import SwarmError

MAX_BODY_BYTES = 32 * 1024 * 1024
_MAX_LINE_BYTES = 65_536
_MAX_HEADERS = 200

Headers = list[tuple[str, str]]


class RequestRefused(SwarmError):
    """A request that the API would answer with an error; the stable `code` distinguishes causes of one status."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        retry_after: float | None = None,
        code: str | None = None,
    ) -> None:
        self.status, self.kind, self.message, self.retry_after, self.code = status, kind, message, retry_after, code
        super().__init__(message)


class Request(NamedTuple):
    """One HTTP request."""

    method: str
    path: str
    """The path without the query."""
    headers: dict[str, str]
    """Headers by lower-case name."""
    body: bytes

    @property
    def keep_alive(self) -> bool:
        """Whether the client wants to reuse the connection."""
        return self.headers.get("connection", "").lower() != "close"

    def json(self) -> Any:
        """Parse the body as JSON. Raises `RequestRefused`."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise RequestRefused(f"the body is not JSON: {error}") from error

    @property
    def api_key(self) -> str:
        """The key from a bearer token, `x-api-key` or `x-goog-api-key`; empty if there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
        return (self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or "").strip()


def read_request(stream: io.BufferedIOBase) -> Request | None:
    """Read the next request, or return None when the client has closed the connection.

    Raises `RequestRefused` for bytes that are not a valid request; the connection cannot be used afterwards.
    """
    line = stream.readline(_MAX_LINE_BYTES)
    if not line:
        return None
    parts = line.decode("latin-1").split()
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise RequestRefused("not an HTTP/1.1 request", status=400)
    headers: dict[str, str] = {}
    while True:
        line = stream.readline(_MAX_LINE_BYTES)
        if line in (b"\r\n", b"\n"):
            break
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or len(headers) >= _MAX_HEADERS:
            raise RequestRefused("the headers are malformed", status=400)
        headers[name.lower()] = value.strip()
    if parts[2] == "HTTP/1.0":
        headers["connection"] = "close"
    return Request(parts[0], parts[1].partition("?")[0], headers, _read_body(stream, headers))


def _read_body(stream: io.BufferedIOBase, headers: dict[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise RequestRefused("a request body needs a Content-Length; chunked requests are not supported", status=411)
    length = headers.get("content-length", "0")
    if not length.isdigit():
        raise RequestRefused(f"Content-Length must be a number, not {length!r}", status=400)
    if int(length) > MAX_BODY_BYTES:
        raise RequestRefused(f"the request is larger than {MAX_BODY_BYTES} bytes", status=413)
    body = stream.read(int(length)) if int(length) else b""
    if len(body) < int(length):
        raise RequestRefused("the connection ended within the request's body", status=400)
    if headers.get("content-encoding", "").lower() == "gzip":
        try:
            return gzip.decompress(body)
        except (OSError, EOFError, zlib.error) as error:
            raise RequestRefused(f"the body is not gzip, as its header claims: {error}", status=400) from error
    return body


def format_head(status: int, headers: Headers) -> bytes:
    """Format the status line and headers."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Overloaded"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


def format_response(status: int, headers: Headers, body: bytes, content_type: str = "application/json") -> bytes:
    """Format a whole response, to send in one piece."""
    return format_head(status, [("content-type", content_type), ("content-length", str(len(body))), *headers]) + body


def format_chunk(data: bytes) -> bytes:
    """Format one chunk of a response of unknown length; an empty chunk ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)
