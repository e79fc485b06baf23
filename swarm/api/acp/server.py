"""The methods that an editor calls: https://agentclientprotocol.com/protocol/v1/overview"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import IO

import swarm
from swarm.api.acp.commands import list_commands
from swarm.api.acp.connection import EditorPeer, Params
from swarm.api.acp.options import fixed_options, read_choices
from swarm.api.acp.requests import (
    ToCancel,
    ToInitialize,
    ToList,
    ToOpen,
    ToPrompt,
    ToReopen,
    ToSetMode,
    ToSetOption,
    read_params,
)
from swarm.api.acp.session import EditorSession, SessionPlace
from swarm.api.acp.updates import show_commands
from swarm.client import aio
from swarm.client.failures import NotThere
from swarm.client.operations import Invocation
from swarm.client.reads import list_jobs
from swarm.client.swarm import Swarm
from swarm.core.ids import job_id_for

PROTOCOL_VERSION = 1
_LISTED = 50
_READ_PARTS = 20
"""Parts of the list of jobs that one request for sessions of a folder reads."""


class EditorServer:
    """The agent that one editor talks with. `ready` sees to workers and raises if no job could run."""

    def __init__(self, fleet: aio.Swarm, source: IO[bytes], sink: IO[bytes], *, ready: Callable[[], None]) -> None:
        self._fleet = fleet
        self._editor = ToInitialize()
        self._call = Invocation(fleet.sync, self._editor.name, ready=ready)
        self._sessions: dict[str, EditorSession] = {}
        self._peer = EditorPeer(source, sink)
        self._peer.methods = {
            "initialize": self._initialize,
            "session/new": self._open,
            "session/load": partial(self._reopen, replay=True),
            "session/resume": partial(self._reopen, replay=False),
            "session/list": self._list,
            "session/prompt": self._prompt,
            "session/set_config_option": self._set_option,
            "session/set_mode": self._set_mode,
        }
        self._peer.notifications = {"session/cancel": self._cancel}
        self._peer.withdrawals = {"session/prompt": self._cancel}

    async def serve(self) -> None:
        """Serve the editor until it goes; jobs continue."""
        await self._peer.serve()
        for session in self._sessions.values():
            await session.close()

    async def _initialize(self, params: Params) -> Params:
        self._editor = read_params(ToInitialize, params, "initialize")
        self._call = replace(self._call, by=self._editor.name)
        # `close` is left out: the protocol lets it cancel the work, and an editor closes sessions that a person only leaves.
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "swarm", "title": "swarm", "version": swarm.__version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                "sessionCapabilities": {"list": {}, "resume": {}},
            },
            "authMethods": [],
        }

    async def _open(self, params: Params) -> Params:
        folder = read_params(ToOpen, params, "session/new").cwd
        options = await asyncio.to_thread(read_choices, self._fleet.sync, folder)
        key = f"acp/{secrets.token_hex(16)}"
        session = self._make(SessionPlace(job_id_for(key), folder, options, key))
        self._sessions[session.place.id] = session
        found = await asyncio.to_thread(partial(list_commands, self._fleet.sync, folder))
        told = {"sessionId": session.place.id, "update": show_commands(found)}
        # After the answer, because the editor knows no session before.
        asyncio.get_running_loop().call_soon(self._peer.tell, "session/update", told)
        return {"sessionId": session.place.id, **options.show()}

    async def _reopen(self, params: Params, *, replay: bool) -> Params:
        given = read_params(ToReopen, params, "session/load")
        known = self._sessions.get(given.session_id)
        if known is not None and not known.begun:
            return known.place.options.show()
        view = await asyncio.to_thread(self._fleet.sync.store.jobs.get, given.session_id)
        options = await asyncio.to_thread(fixed_options, self._fleet.sync, view)
        session = self._make(SessionPlace(given.session_id, given.cwd or view.workspace, options))
        if known is not None:
            await known.leave()
        # Open only once it is loaded: a prompt to a session without its job would begin another one.
        await session.load(replay=replay)
        other, self._sessions[given.session_id] = self._sessions.get(given.session_id), session
        if other is not None and other is not known:
            await other.leave()
        return options.show()

    def _make(self, place: SessionPlace) -> EditorSession:
        return EditorSession(self._fleet, self._peer, self._editor, place, self._call)

    async def _list(self, params: Params) -> Params:
        wanted = read_params(ToList, params, "session/list")
        found, before = [], wanted.cursor or ""
        for _ in range(_READ_PARTS):
            part = await asyncio.to_thread(partial(list_jobs, self._call, _LISTED, before=before))
            found += [job for job in part.jobs if wanted.cwd in (None, job.workspace)]
            before = part.next
            if not before or len(found) >= _LISTED:
                break
        return {
            "sessions": [
                {
                    "sessionId": job.id,
                    "cwd": job.workspace,
                    "title": job.title,
                    "updatedAt": show_moment(job.ended_at or job.created_at),
                    "_meta": {"swarm": {"state": job.state, "agents": job.agents, "costUsd": job.cost_usd}},
                }
                for job in found
            ],
            **({"nextCursor": before} if before else {}),
        }

    async def _prompt(self, params: Params) -> Params:
        given = read_params(ToPrompt, params, "session/prompt")
        session = self._find(given.session_id)
        return {"stopReason": await session.prompt(given.text, partial(self._submit, session))}

    def _submit(self, session: EditorSession, text: str, key: str) -> Sequence[str]:
        """Start a job of the session; return the warnings."""
        self._call.ready()
        place = session.place
        order = place.options.order()
        job = self._fleet.sync.submit(text, workspace=place.folder, idempotency_key=key, commands=True, **order)
        place.options = place.options.fix()
        return job.warnings

    async def _cancel(self, params: Params) -> None:
        session_id = read_params(ToCancel, params, "session/cancel").session_id
        for session in self._sessions.values():
            if session.shows(session_id):
                await session.cancel(session_id)

    async def _set_option(self, params: Params) -> Params:
        given = read_params(ToSetOption, params, "session/set_config_option")
        session = self._find(given.session_id)
        session.place.options = session.place.options.set(given.config_id, given.value)
        return {"configOptions": session.place.options.show()["configOptions"]}

    async def _set_mode(self, params: Params) -> None:
        given = read_params(ToSetMode, params, "session/set_mode")
        session = self._find(given.session_id)
        session.place.options = session.place.options.set("mode", given.mode_id)

    def _find(self, session_id: str) -> EditorSession:
        if (session := self._sessions.get(session_id)) is None:
            raise NotThere(f"the session {session_id} is not open; load it, or make one with session/new")
        return session


def serve_editor(fleet: Swarm, source: IO[bytes], sink: IO[bytes], *, ready: Callable[[], None]) -> None:
    """Serve the editor at the other end of two pipes until it closes its end."""

    async def serve() -> None:
        async with aio.Swarm(fleet.settings, tell=fleet.tell) as opened:
            await EditorServer(opened, source, sink, ready=ready).serve()

    asyncio.run(serve())


def show_moment(seconds: float) -> str:
    """Return Unix seconds in the form of ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
