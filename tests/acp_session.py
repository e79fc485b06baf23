"""A session of an editor in the test's own process, so that a test can decide when its parts come."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence

from swarm.api.acp.connection import EditorPeer
from swarm.api.acp.options import read_choices
from swarm.api.acp.requests import ToInitialize
from swarm.api.acp.session import EditorSession, SessionPlace
from swarm.client import aio
from swarm.client.operations import Invocation
from swarm.core.ids import job_id_for
from swarm.core.records import JobView
from tests.fleet import Fleet
from tests.waiting import wait_for


class Seat:
    """One editor at the session of this key. `ready` counts how often workers were seen to."""

    def __init__(self, fleet: Fleet, opened: aio.Swarm, key: str, base_url: str | None = None) -> None:
        self._fleet, self._sink, self._base_url = fleet, io.BytesIO(), base_url
        self.ready = 0
        options = read_choices(fleet.swarm, str(fleet.workspace))
        place = SessionPlace(job_id_for(key), str(fleet.workspace), options, key)
        peer, call = EditorPeer(io.BytesIO(), self._sink), Invocation(opened.sync, "seat", ready=self._see_to_workers)
        self.session = EditorSession(opened, peer, ToInitialize(), place, call)

    def _see_to_workers(self) -> None:
        self.ready += 1

    async def prompt(self, text: str, after: Callable[[JobView], bool] = lambda view: True) -> str:
        """Send a message; a job that it starts is looked at once it is so."""

        def submit(text: str, key: str) -> Sequence[str]:
            order = self.session.place.options.order()
            place = {"workspace": self._fleet.workspace, "base_url": self._base_url}
            job = self._fleet.swarm.submit(text, idempotency_key=key, **place, **order)
            wait_for("the editor may look", lambda: after(job.view()))
            return job.warnings

        return await self.session.prompt(text, submit)

    def text(self) -> str:
        """What agents have said here."""
        told = [json.loads(line)["params"]["update"] for line in self._sink.getvalue().splitlines()]
        return "".join(one["content"]["text"] for one in told if one["sessionUpdate"] == "agent_message_chunk")
