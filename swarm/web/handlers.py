"""The page's handlers in Flower: they check the request, call a function of this package, and write JSON."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import gzip
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flower.views import BaseHandler
from pydantic_core import to_jsonable_python
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, StaticFileHandler

from swarm.client.failures import BadRequest, NotThere, Refusal, explain
from swarm.client.operations import Invocation, Operation
from swarm.client.swarm import Swarm
from swarm.mailbox import USER
from swarm.web import reads
from swarm.web.guard import HEADERS, check_act, check_site, cookie_for, is_same
from swarm.web.stream import Streams

log = logging.getLogger("swarm.web")
_MOST_BODY_BYTES = 5 * 1024 * 1024
_WORTH_ZIPPING_BYTES = 1_024
# Not Flower's own threads: its inspector needs them, and reads here may wait for Redis.
_THREADS = ThreadPoolExecutor(4, "swarm-web")
_STREAMS = Streams(64, 12)
_RETRY_MILLISECONDS = 1_000
_CODES = {401: "login", 405: "bad_request", 421: "host"}
STATIC = Path(__file__).parent / "static"
_MODULES = tuple(
    path.relative_to(STATIC).as_posix() for folder in ("", "vendor") for path in sorted((STATIC / folder).glob("*.mjs"))
)
"""Modules that the page loads at once. The shell names them, so that a browser loads them in parallel. Panels load when shown."""


def on_thread(act: Callable[[], Any]) -> asyncio.Future[Any]:
    """Call a function that may block on a thread."""
    return asyncio.get_running_loop().run_in_executor(_THREADS, act)


def has_login(handler: BaseHandler) -> bool:
    """Whether Flower asks for a login."""
    return bool(handler.application.options.basic_auth or handler.application.options.auth)


def check_login(handler: BaseHandler, token: str) -> None:
    """Raise unless the visitor may look: with Flower's login if one is set, else with the token's cookie."""
    if has_login(handler):
        if not handler.current_user:
            raise HTTPError(401, "log in to Flower first")
        return
    name, value = cookie_for(token)
    if not is_same(handler.get_cookie(name) or "", value):
        raise Refusal(403, "token", "open the address with the token that `swarm flower` or `swarm status` prints")


class Guarded(BaseHandler):  # type: ignore[misc]
    """A handler that requires the login or the token, and for acts, that they come from the page."""

    swarm: Swarm
    token: str
    is_linked = False
    """Whether other sites' pages may link here; they can neither read nor act."""

    def initialize(self, swarm: Swarm, token: str) -> None:
        self.swarm, self.token = swarm, token

    def set_default_headers(self) -> None:
        # Flower's own headers may open everything to all sites.
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def check_xsrf_cookie(self) -> None:
        """Check nothing: `prepare` checks more, and also without a login."""

    def prepare(self) -> None:
        acting = self.request.method not in ("GET", "HEAD")
        self.check_login()
        if self._finished:
            return
        if acting or not self.is_linked:
            check_site(self.request.headers, self.request.host, acts=acting)
        if acting:
            check_act(self.request.headers, read_only=self.application.options.read_only)
            if len(self.request.body) > _MOST_BODY_BYTES:
                raise Refusal(413, "too_large", f"the body is longer than {_MOST_BODY_BYTES // 1024**2} MiB")

    def check_login(self) -> None:
        """Raise unless the visitor may look."""
        check_login(self, self.token)

    @property
    def user(self) -> str:
        """The visitor's name from the login, if any."""
        if isinstance(self.current_user, str):
            return self.current_user
        kind, _, given = self.request.headers.get("Authorization", "").partition(" ")
        if has_login(self) and kind == "Basic":
            try:
                return base64.b64decode(given).decode().partition(":")[0] or USER
            except (binascii.Error, UnicodeDecodeError):
                return USER
        return USER

    def about(self) -> dict[str, Any]:
        """Return the facts that the page needs first."""
        read_only = bool(self.application.options.read_only)
        return reads.read_about(self.swarm, user=self.user, read_only=read_only, now=time.time())

    async def give(self, read: Callable[[], Any], status: int = 200) -> None:
        """Call a function on a thread, and write its result."""
        zips = "gzip" in self.request.headers.get("Accept-Encoding", "")

        def encode() -> tuple[bytes, bool]:
            body = json.dumps(to_jsonable_python(read()), ensure_ascii=False).encode("utf-8", "replace")
            worth = zips and len(body) >= _WORTH_ZIPPING_BYTES
            return (gzip.compress(body, 5) if worth else body), worth

        body, zipped = await on_thread(encode)
        self.set_status(status)
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.set_header("Vary", "Accept-Encoding")
        if zipped:
            self.set_header("Content-Encoding", "gzip")
        self.finish(body)

    def query(self) -> dict[str, str]:
        """The query's values, each name once."""
        return {name: self.get_query_argument(name) for name in self.request.query_arguments}

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, HTTPError):
            told = {
                "code": _CODES.get(status_code, "bad_request"),
                "message": error.get_message() or error.reason or str(error),
            }
            status, body = status_code, {"error": told}
        else:
            refusal = explain(error)
            status, body = refusal.status, refusal.body
        if status == 401:
            self.set_header("WWW-Authenticate", 'Basic realm="flower"')
        self.set_status(status)
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.finish(json.dumps(body))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, HTTPError) or explain(value).status != 500:
            log.debug("%s %s: %s", self.request.method, self.request.path, value)
        else:
            log.error("%s %s", self.request.method, self.request.path, exc_info=(typ, value, tb))


class Page(Guarded):
    """The page itself. It exchanges a token for the cookie."""

    is_linked = True

    def check_login(self) -> None:
        given = self.get_query_argument("token", "")
        if not has_login(self) and given and is_same(given, self.token):
            name, value = cookie_for(self.token)
            secure = self.request.protocol == "https"
            self.set_cookie(
                name,
                value,
                path=self.reverse_url("swarm").removesuffix("swarm"),  # Flower's own pages, too
                httponly=True,
                samesite="Strict",
                secure=secure,
                expires_days=30,
            )
            self.redirect(self.reverse_url("swarm"))
        elif has_login(self) and not self.current_user and self.application.options.auth:
            self.redirect(self.get_login_url())
        else:
            super().check_login()

    async def get(self) -> None:
        self.render("swarm.html", about=json.dumps(self.about()), modules=_MODULES)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, Refusal):
            self.set_status(error.status)
            self.set_header("Content-Type", "text/html; charset=UTF-8")
            self.finish(f"<!doctype html><title>Swarm</title><p>{error}</p>")
        else:
            super().write_error(status_code, **kwargs)


class Assets(StaticFileHandler):
    """Scripts, styles and their licences: equal for all visitors."""

    def set_extra_headers(self, path: str) -> None:
        for name, value in {**HEADERS, "Cache-Control": "no-cache"}.items():
            self.set_header(name, value)

    def get_content_type(self) -> str:
        # The system's table of types may lack it.
        return "text/javascript" if str(self.absolute_path).endswith(".mjs") else super().get_content_type()


class About(Guarded):
    async def get(self) -> None:
        await self.give(self.about)


class Mounted(Guarded):
    """The operations of one path, by their methods."""

    _task: asyncio.Task[Any] | None = None

    def initialize(self, swarm: Swarm, token: str, operations: Mapping[str, Operation]) -> None:  # type: ignore[override]
        super().initialize(swarm, token)
        self._operations = operations

    async def get(self, **path: str) -> None:
        await self._answer(path, self.query(), "the query")

    async def post(self, **path: str) -> None:
        try:
            given = json.loads(self.request.body)
        except ValueError:
            raise BadRequest("the body is no JSON") from None
        await self._answer(path, given, "the body")

    async def _answer(self, path: dict[str, str], given: object, where: str) -> None:
        operation = self._operations.get(self.request.method or "")
        if operation is None:
            raise HTTPError(405)
        headers = operation.headers or {}
        named = {
            name: self.request.headers[header] for header, name in headers.items() if header in self.request.headers
        }
        given = {**given, **named} if isinstance(given, dict) else given
        call, body = Invocation(self.swarm, self.user, on_thread=on_thread), operation.read(path, given, where)
        if operation.streams:
            await self._send(_STREAMS.open(f"{self.user} {self.request.remote_ip}", operation.run(call, body)))
        else:
            await self.give(lambda: operation.run(call, body), operation.status)

    async def _send(self, stream: AsyncGenerator[str, None]) -> None:
        self.set_header("Content-Type", "text/event-stream")
        # A proxy would buffer the events.
        self.set_header("X-Accel-Buffering", "no")
        # Otherwise, an event soon after another one waits up to 40 ms for the browser's acknowledgement.
        self.request.connection.stream.set_nodelay(True)
        self._task = asyncio.current_task()
        try:
            self.write(f"retry: {_RETRY_MILLISECONDS}\n\n")
            await self.flush()
            async with contextlib.aclosing(stream):
                async for event in stream:
                    self.write(event)
                    await self.flush()
        except (StreamClosedError, asyncio.CancelledError):
            # The tab is closed.
            pass

    def on_connection_close(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Nowhere(Guarded):
    """All other addresses below the page's address."""

    async def get(self) -> None:
        raise NotThere("there is nothing at this address")

    post = put = delete = patch = get
