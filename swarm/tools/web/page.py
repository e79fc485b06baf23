"""One page from the web: bounded in time, size and redirects, over connections whose address was checked."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx2

from swarm.core.errors import ToolError
from swarm.tools.web.reach import Reach

MAX_SECONDS = 60.0
MAX_BYTES = 5_000_000
MAX_REDIRECTS = 10
MAX_URL_CHARACTERS = 2_000
_HEADERS = {
    "User-Agent": "swarm-agent (+https://pypi.org/project/celery-swarm)",
    "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1",
}


@dataclass(frozen=True)
class WebPage:
    """A server's response."""

    url: str
    """The page's address after redirects."""
    status: int
    kind: str
    """The media type, in lower case; empty if none was named."""
    charset: str
    body: bytes
    complete: bool = True
    """Nothing was left out for its size."""
    moved_to: str = ""
    """The new address on another host: the caller fetches it under its own rules."""


class Looking(httpx2.BaseTransport):
    """Connects to the checked address, with the name's certificate and `Host` header. Without a reach, to any address."""

    def __init__(self, reach: Reach | None) -> None:
        self._reach = reach
        self._inner = httpx2.HTTPTransport(trust_env=False)
        self._socket: socket.socket | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        request.extensions = {**request.extensions, "sni_hostname": host, "trace": self._note_socket}
        if self._reach is not None:
            request.url = request.url.copy_with(host=self._reach.find_address(host, port))
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()

    def _note_socket(self, event: str, info: dict[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")

    @contextmanager
    def ending(self, seconds: float) -> Iterator[None]:
        """End the connection after `seconds`: a timeout of single reads does not stop a server that sends a byte now and then."""
        timer = threading.Timer(seconds, self._hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def fetch(url: str, reach: Reach, check: Callable[[], None] = lambda: None) -> WebPage:
    """Get `url`, following redirects within its host. `check` is called between pieces and may raise.

    Raises `ToolError` for an address that cannot be fetched, one that is out of reach, and a server that fails.
    """
    deadline = time.monotonic() + MAX_SECONDS
    at, transport = parse(url), Looking(reach)
    with (
        httpx2.Client(transport=transport, headers=_HEADERS, timeout=10.0, follow_redirects=False) as client,
        transport.ending(MAX_SECONDS),
    ):
        for _ in range(MAX_REDIRECTS + 1):
            page = _get(client, at, deadline, check)
            if not page.moved_to:
                return page
            to = parse(page.moved_to)
            if _site(to) != _site(at):
                return page
            at = to
    raise ToolError(f"{url} was redirected more than {MAX_REDIRECTS} times")


def parse(url: str) -> httpx2.URL:
    """Parse an address that can be fetched. Raises `ToolError`."""
    try:
        at = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError, UnicodeError) as error:
        raise ToolError(f"{url[:200]!r} is not a URL: {error}") from error
    if len(url) > MAX_URL_CHARACTERS:
        raise ToolError(f"the URL has {len(url):,} characters, more than {MAX_URL_CHARACTERS:,}")
    if at.scheme not in ("http", "https") or not at.host:
        raise ToolError(f"{url[:200]!r} cannot be fetched; it takes an address that begins with http:// or https://")
    if at.userinfo:
        raise ToolError("a URL with a user name or a password in it is not fetched")
    return at.copy_with(fragment=None)


def _site(url: httpx2.URL) -> tuple[str, int | None]:
    # A server that sends people from http to https, or to its www name, has not sent them elsewhere.
    return url.host.removeprefix("www."), url.port


def _get(client: httpx2.Client, url: httpx2.URL, deadline: float, check: Callable[[], None]) -> WebPage:
    try:
        with client.stream("GET", url) as answer:
            kind, _, _ = answer.headers.get("content-type", "").partition(";")
            if answer.is_redirect and "location" in answer.headers:
                moved = str(url.join(answer.headers["location"]))
                return WebPage(str(url), answer.status_code, kind.strip().lower(), "", b"", moved_to=moved)
            body, complete = _read(answer, check)
            if complete and time.monotonic() >= deadline:  # an end without a length looks whole
                raise ToolError(f"{url} took longer than {MAX_SECONDS:.0f} s")
            charset = answer.charset_encoding or "utf-8"
            return WebPage(str(url), answer.status_code, kind.strip().lower(), charset, body, complete)
    except httpx2.TimeoutException as error:
        raise ToolError(f"{url} did not answer in time") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        if time.monotonic() >= deadline:
            raise ToolError(f"{url} took longer than {MAX_SECONDS:.0f} s") from error
        raise ToolError(f"{url} could not be fetched: {type(error).__name__}: {error}") from error


def _read(answer: httpx2.Response, check: Callable[[], None]) -> tuple[bytes, bool]:
    body = bytearray()
    for piece in answer.iter_bytes():
        check()
        body += piece
        if len(body) > MAX_BYTES:
            return bytes(body[:MAX_BYTES]), False
    return bytes(body), True


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    reach: Reach | None,
    seconds: float,
    check: Callable[[], None] = lambda: None,
) -> tuple[int, bytes]:
    """Send `body`; returns the status and the answer, cut at `MAX_BYTES`. `reach` None: any address.

    Raises `ToolError` for an address that is none, or out of reach, and httpx2's errors.
    """
    at, deadline = parse(url), time.monotonic() + seconds
    looking = Looking(reach)
    with (
        httpx2.Client(transport=looking, timeout=min(seconds, 30.0), follow_redirects=False) as client,
        looking.ending(seconds),
        client.stream("POST", at, content=body, headers=dict(headers)) as answer,
    ):
        found = bytearray()
        for piece in answer.iter_bytes():
            check()
            found += piece
            if len(found) > MAX_BYTES:
                break
        if time.monotonic() >= deadline:  # an end without a length looks whole
            raise httpx2.ReadTimeout(f"{url} took longer than {seconds:g} s")
        return answer.status_code, bytes(found[:MAX_BYTES])
