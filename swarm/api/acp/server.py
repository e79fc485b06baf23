"""The methods that an editor calls: https://agentclientprotocol.com/protocol/v1/overview"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import IO

import swarm
from swarm.api.acp.connection import EditorPeer, Params
from swarm.api.acp.options import SessionOptions, fixed_options, read_choices
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
from swarm.api.acp.session import EditorSession
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
        self._fleet, self._ready = fleet, ready
        self._editor = ToInitialize()
        self._call = Invocation(fleet.sync, self._editor.name)
        self._sessions: dict[str, EditorSession] = {}
        self._orders: dict[str, tuple[str, str]] = {}
        """Session whose job has not begun → its idempotency key and its folder."""
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
            session.close()

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
        session = self._make(job_id_for(key))
        session.options = options
        self._orders[session.id] = (key, folder)
        return {"sessionId": session.id, **options.show()}

    async def _reopen(self, params: Params, *, replay: bool) -> Params:
        session_id = read_params(ToReopen, params, "session/load").session_id
        if (known := self._sessions.get(session_id)) is not None and session_id in self._orders:
            return self._options_of(known).show()
        view = (await self._fleet.job(session_id)).view
        options = await asyncio.to_thread(fixed_options, self._fleet.sync, await view())
        if known is not None:
            known.close()
        session = self._make(session_id)
        session.options = options
        await session.load(replay=replay)
        return options.show()

    def _make(self, session_id: str) -> EditorSession:
        session = EditorSession(self._fleet, self._peer, self._editor, session_id, self._call)
        self._sessions[session_id] = session
        return session

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

    def _submit(self, session: EditorSession, text: str) -> None:
        """Start the session's job."""
        self._ready()
        key, folder = self._orders[session.id]
        order = self._options_of(session).order()
        self._fleet.sync.submit(text, workspace=folder, idempotency_key=key, commands=True, **order)
        session.options = self._options_of(session).fix()
        del self._orders[session.id]

    async def _cancel(self, params: Params) -> None:
        session_id = read_params(ToCancel, params, "session/cancel").session_id
        for session in self._sessions.values():
            if session.shows(session_id):
                await session.cancel(session_id)

    async def _set_option(self, params: Params) -> Params:
        given = read_params(ToSetOption, params, "session/set_config_option")
        session = self._find(given.session_id)
        session.options = self._options_of(session).set(given.config_id, given.value)
        return {"configOptions": session.options.show()["configOptions"]}

    async def _set_mode(self, params: Params) -> None:
        given = read_params(ToSetMode, params, "session/set_mode")
        session = self._find(given.session_id)
        session.options = self._options_of(session).set("mode", given.mode_id)

    def _find(self, session_id: str) -> EditorSession:
        if (session := self._sessions.get(session_id)) is None:
            raise NotThere(f"the session {session_id} is not open; load it, or make one with session/new")
        return session

    def _options_of(self, session: EditorSession) -> SessionOptions:
        assert session.options is not None
        return session.options


def serve_editor(fleet: Swarm, source: IO[bytes], sink: IO[bytes], *, ready: Callable[[], None]) -> None:
    """Serve the editor at the other end of two pipes until it closes its end."""

    async def serve() -> None:
        async with aio.Swarm(fleet.settings, tell=fleet.tell) as opened:
            await EditorServer(opened, source, sink, ready=ready).serve()

    asyncio.run(serve())


def show_moment(seconds: float) -> str:
    """Return Unix seconds in the form of ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
