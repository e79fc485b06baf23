"""The hub over HTTP: it authenticates and checks requests, and streams git's replies."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.web import Application, RequestHandler, stream_request_body

from swarm.core.log import EventLog
from swarm.hub.backend import GitBackend
from swarm.hub.handler import Hub, HubHandler
from swarm.hub.objects import OBJECT, ObjectHandler
from swarm.hub.repositories import RepositoryStore
from swarm.hub.requests import CommandReader, Query, read_ask, was_taken

log = EventLog("swarm.hub")
AT_ONCE = 32
"""Maximum number of git processes; further requests wait."""
BODY_SECONDS = 1_800.0
"""Seconds that a client may take to send a push."""
IDLE_SECONDS = 60.0
"""Seconds that a connection may be idle, or take to send a request's headers."""
_REPORT_BYTES = 64 << 10
"""Maximum bytes of git's report on a push that are examined."""
_ASKED_BYTES = 16 << 20
"""Maximum bytes of a client's list of wanted and present objects in a fetch."""


@stream_request_body
class GitHandler(HubHandler):
    """Handles one of git's requests."""

    def initialize(self, hub: Hub) -> None:
        super().initialize(hub)
        self._backend: GitBackend | None = None
        self._holds_slot = False
        self._received, self._began = 0, time.monotonic()
        self._ask: Query | None = None
        self._commands: CommandReader | None = None

    async def prepare(self) -> None:
        """Refuse an invalid request before its body is read; else start git."""
        self.require_token()
        path, _, query = self.request.uri.partition("?") if self.request.uri else ("", "", "")
        if (ask := read_ask(self.request.method or "", path, query)) is None:
            self.refuse(404, "the hub serves only git repositories at /FOLDER/NAME.git")
        self._ask, repositories = ask, self.hub.repositories
        most = self.find_room(ask.place) if ask.act == "push" else 0
        if ask.act == "push" and ask.begins:
            await repositories.make(ask.place)
        if not repositories.has(ask.place):
            self.refuse(404, f"there is no repository {ask.place}: nothing was pushed to it, or its job was removed")
        if ask.place.is_base:
            repositories.touch(ask.place)
        if ask.act == "push" and not ask.begins:
            if "Content-Encoding" in self.request.headers:
                self.refuse(415, "the hub reads pushes, so a body must not be compressed")
            self._commands = CommandReader()
        await self.hub.slots.acquire()
        self._holds_slot = True
        assert isinstance(self.request.connection, HTTP1Connection)
        # Git limits the size of the pack itself; the data around it takes some more bytes.
        self.request.connection.set_max_body_size(most + _ASKED_BYTES if ask.act == "push" else _ASKED_BYTES)
        self._backend = await GitBackend.start(repositories.folder, self._variables(path, query), most)

    def _variables(self, path: str, query: str) -> dict[str, str]:
        headers = self.request.headers
        given = {
            "REQUEST_METHOD": self.request.method or "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "CONTENT_LENGTH": headers.get("Content-Length", ""),
            "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": self.request.remote_ip or "",
        }
        return {name: value for name, value in given.items() if value}

    async def data_received(self, chunk: bytes) -> None:
        """Pass on a part of the body; the next one is read when git has taken it."""
        assert self._backend is not None
        self._received += len(chunk)
        if passed := self._commands.take(chunk) if self._commands else chunk:
            await self._backend.feed(passed)

    async def get(self) -> None:
        """Pass on git's reply, after the end of the body."""
        assert self._backend is not None and self._ask is not None
        if self._commands and self._commands.refused:
            self.refuse(403, self._commands.refused)
        status, headers = await self._backend.read_head()
        self.set_status(status)
        for name, value in headers.items():
            self.set_header(name, value)
        report = b""
        try:
            async for chunk in self._backend.read_body():
                report += chunk[: _REPORT_BYTES - len(report)] if self._commands else b""
                self.write(chunk)
                await self.flush()
        except StreamClosedError:
            return
        if self._commands is not None:
            await self._count(self._ask, await self._backend.ended_well() and was_taken(report))

    async def _count(self, ask: Query, taken: bool) -> None:
        repositories = self.hub.repositories
        if taken:
            repositories.count(ask.place, self._received)
        else:
            # Git usually keeps nothing of a refused push; a measurement shows the exceptions.
            repositories.note_size(ask.place, (await asyncio.to_thread(repositories.measure, ask.place))[0])
        self._tell("hub.pushed" if taken else "hub.push_failed")

    post = get

    def _tell(self, event: str) -> None:
        log.info(
            event,
            repository=self._ask and self._ask.place,
            bytes=self._received,
            seconds=time.monotonic() - self._began,
        )

    def on_finish(self) -> None:
        self._end()

    def on_connection_close(self) -> None:
        """Handle a lost client, at any point of the request."""
        super().on_connection_close()
        if self._commands is not None:
            self._tell("hub.push_broke_off")
        self._end()

    def _end(self) -> None:
        if self._backend is not None:
            self._backend.end()
            self._backend = None
        if self._holds_slot:
            self._holds_slot = False
            self.hub.slots.release()


class HealthHandler(RequestHandler):
    """Answers `/health` for probes, which have no token: the hub is up."""

    def get(self) -> None:
        """Report that the hub is up."""
        self.set_header("Content-Type", "text/plain")
        self.finish("ok\n")


def make_server(repositories: RepositoryStore, token: str) -> HTTPServer:
    """Make the server of these repositories; it does not listen yet."""
    hub = Hub(repositories, token, asyncio.Semaphore(AT_ONCE))
    routes: list[Any] = [
        ("/health", HealthHandler),
        (OBJECT, ObjectHandler, {"hub": hub}),
        ("/.*", GitHandler, {"hub": hub}),
    ]
    return HTTPServer(
        Application(routes, log_function=lambda handler: None, compress_response=False),
        idle_connection_timeout=IDLE_SECONDS,
        body_timeout=BODY_SECONDS,
        max_header_size=16 << 10,
        max_body_size=_ASKED_BYTES,
    )


def make_folder(folder: Path) -> Path:
    """Make the hub's folder, which only its user can read."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder.resolve()
