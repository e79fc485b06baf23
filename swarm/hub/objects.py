"""Objects of jobs: `/FOLDER/JOB.git/swarm/DIGEST`, a file in the job's repository, which counts to its share and goes with it.

`PUT` takes content with that SHA-256 and writes it atomically; `GET` sends it or a range of it, `HEAD` says whether it exists,
`DELETE` removes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from tornado.http1connection import HTTP1Connection
from tornado.web import StaticFileHandler, stream_request_body

from swarm.core.log import EventLog
from swarm.hub.handler import Hub, HubHandler
from swarm.hub.repositories import Full, PushQuota
from swarm.hub.requests import PLACE, RepositoryPlace

log = EventLog("swarm.hub")
_MOST_BYTES = 4 << 30
OBJECT = rf"{PLACE}\.git/swarm/([0-9a-f]{{64}})"
"""Path of an object: its folder, its job, its digest."""


@stream_request_body
class ObjectHandler(HubHandler, StaticFileHandler):
    """Handles a request for one object."""

    SUPPORTED_METHODS = ("GET", "HEAD", "PUT", "DELETE")

    def initialize(self, hub: Hub) -> None:  # type: ignore[override]
        """Serve files of the hub's folder."""
        super().initialize(hub)
        self.root, self.default_filename = str(hub.repositories.folder), None
        self._new: Path | None = None
        self._file: BinaryIO | None = None
        self._hash, self._size = hashlib.sha256(), 0
        self._room: PushQuota | Full | None = None

    async def prepare(self) -> None:
        """Refuse a request that may not be served; before the body of an object is read, find room for it."""
        self.require_token()
        place, digest = RepositoryPlace(*self.path_args[:2]), self.path_args[2]
        self._place, self._path = place, place.below(self.hub.repositories.folder) / "swarm" / digest
        if self.request.method == "DELETE":
            return
        if self.request.method != "PUT":
            # The file handler finds the file by this.
            self.path_args = [str(self._path.relative_to(self.root))]
            return
        # Refused after the body: a client that still sends would see only a lost connection.
        self._room = self.hub.repositories.room(place)
        await self.hub.repositories.make(place)
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        self._new = self._path.with_name(f".new-{secrets.token_hex(8)}")
        self._file = self._new.open("xb")
        assert isinstance(self.request.connection, HTTP1Connection)
        self.request.connection.set_max_body_size(_MOST_BYTES)

    def data_received(self, chunk: bytes) -> None:
        """Write the next part of an object."""
        self._size += len(chunk)
        if self._file is not None and isinstance(self._room, PushQuota) and self._size <= self._room.bytes:
            self._file.write(chunk)
            self._hash.update(chunk)

    async def put(self, folder: str, job: str, digest: str) -> None:
        """Keep the object; answers 201 when it is on the disk."""
        if self.find_room(self._place) < self._size:
            self.refuse(
                413, "no room: the object is larger than the room left; raise SWARM_HUB_JOB_MIB or SWARM_HUB_MIB"
            )
        if self._hash.hexdigest() != digest:
            self.refuse(422, "the content has another SHA-256 than its name says; send it again")
        await asyncio.to_thread(self._keep)
        self.hub.repositories.count(self._place, self._size)
        log.info("hub.object", repository=self._place, bytes=self._size)
        self.set_status(201)

    async def delete(self, folder: str, job: str, digest: str) -> None:
        """Delete the object; answers 404 if there is none."""
        try:
            size = self._path.stat().st_size
            self._path.unlink()
        except FileNotFoundError:
            self.refuse(404, "there is no such object")
        self.hub.repositories.count(self._place, -size)
        self.set_status(204)

    def _keep(self) -> None:
        assert self._file is not None and self._new is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._new.rename(self._path)
        opened = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)

    @classmethod
    def get_content_version(cls, abspath: str) -> str:
        """The object's digest, which names its content."""
        return Path(abspath).name

    def get_content_type(self) -> str:
        """Name no type: the content is of any kind."""
        return "application/octet-stream"

    def on_finish(self) -> None:
        """Remove an object that was not kept."""
        self._end()

    def on_connection_close(self) -> None:
        """Handle a client that was lost in the middle."""
        super().on_connection_close()
        self._end()

    def _end(self) -> None:
        if self._file is not None and self._new is not None:
            self._file.close()
            self._new.unlink(missing_ok=True)
            self._file = None
