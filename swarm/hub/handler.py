"""The common part of requests to the hub: the token, the room, and refusals."""

from __future__ import annotations

import asyncio
import base64
import hmac
from dataclasses import dataclass
from typing import Any, NoReturn

from tornado.web import Finish, RequestHandler

from swarm.core.log import EventLog
from swarm.hub.repositories import Full, PushQuota, RepositoryStore
from swarm.hub.requests import RepositoryPlace

log = EventLog("swarm.hub")


OPTIONAL = "Swarm-Optional"
"""Header of a push that the job can do without."""


@dataclass
class Hub:
    """State shared by the requests of one hub."""

    repositories: RepositoryStore
    token: str
    slots: asyncio.Semaphore


class HubHandler(RequestHandler):
    """A request to a hub."""

    def initialize(self, hub: Hub) -> None:
        """Keep the hub that handles the request."""
        self.hub = hub

    def set_default_headers(self) -> None:
        """Name the server, and forbid browsers to guess the type of content."""
        self.set_header("Server", "swarm-hub")
        self.set_header("X-Content-Type-Options", "nosniff")

    def require_token(self) -> None:
        """Refuse a request without the token."""
        known = "Basic " + base64.b64encode(f"swarm:{self.hub.token}".encode()).decode()
        if not hmac.compare_digest(self.request.headers.get("Authorization", "").encode(), known.encode()):
            self.set_header("WWW-Authenticate", 'Basic realm="hub"')
            self.refuse(401, "the hub needs its token: send SWARM_HUB_TOKEN as the password of the user `swarm`")

    def find_room(self, place: RepositoryPlace) -> int:
        """How many bytes a job may add now; refuses the request if there is no room."""
        match self.hub.repositories.room(place, optional=OPTIONAL in self.request.headers):
            case Full(why, for_good):
                remedy = "raise SWARM_HUB_JOB_MIB of the hub" if for_good else "free its disk, or raise SWARM_HUB_MIB"
                self.refuse(413 if for_good else 507, f"no room: {why}; {remedy}")
            case PushQuota(most):
                return most

    def refuse(self, status: int, why: str) -> NoReturn:
        """Refuse the request, in words that the client shows."""
        log.warning("hub.refused", status=status, why=why, by=self.request.remote_ip)
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        # The rest of the body is not read.
        self.set_header("Connection", "close")
        self.finish(f"{why}\n")
        raise Finish

    def log_exception(self, *given: Any) -> None:
        """Log a fault of the hub or of its disk."""
        if given[0] is not Finish:
            log.error("hub.broke", error=repr(given[1]), path=self.request.path)

    def write_error(self, status_code: int, **_: Any) -> None:
        """Answer a fault or an unknown request in one line."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "the hub could not do that; its log says why\n" if status_code >= 500 else "this is not a git request\n"
        )
