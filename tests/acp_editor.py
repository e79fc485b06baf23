"""An editor for tests: the official client of the protocol's Python SDK, which starts `swarm acp` and keeps all that it hears."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    Implementation,
    RequestPermissionResponse,
)

from tests.fleet import Fleet


class Editor:
    """One run of `swarm acp`, and its updates by session. `choose` picks the option of a request for permission."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self.choose: Callable[[Any], str | None] | None = None
        """None: the person does not look."""
        self.words = "English"
        self.agent: ClientSideConnection
        self.process: asyncio.subprocess.Process
        self._news = asyncio.Event()

    # -- the client's side of the protocol ---------------------------------------------------------------------------

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append((session_id, update))
        self._news.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **more: Any
    ) -> RequestPermissionResponse:
        self.asked.append((session_id, tool_call, options))
        self._news.set()
        while self.choose is None:
            await asyncio.sleep(0.02)
        if (chosen := self.choose(options)) is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def create_elicitation(self, message: str, mode: Any, **more: Any) -> AcceptElicitationResponse:
        self.asked.append((mode.session_id, message, mode.requested_schema))
        self._news.set()
        return AcceptElicitationResponse(action="accept", content={"words": self.words})

    def on_connect(self, agent: Any) -> None:
        self.agent = agent

    # -- the person ----------------------------------------------------------------------------------------------------

    async def prompt(self, session: str, text: str) -> str:
        answer = await self.agent.prompt(session_id=session, prompt=[text_block(text)])
        return str(answer.stop_reason)

    async def until(self, what: str, found: Callable[[], Any]) -> Any:
        """Wait until something holds; updates and questions are looked at as they come."""
        async with asyncio.timeout(60):
            while not (answer := found()):
                self._news.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), 0.2)
        return answer

    def kinds(self, session: str) -> list[str]:
        return [update.session_update for found, update in self.updates if found == session]

    def text(self, session: str, kind: str = "agent_message_chunk") -> str:
        """The joined text of a session's messages."""
        return "".join(
            update.content.text for found, update in self.updates if (found, update.session_update) == (session, kind)
        )

    def of_kind(self, session: str, kind: str) -> list[Any]:
        return [update for found, update in self.updates if (found, update.session_update) == (session, kind)]


@asynccontextmanager
async def open_editor(fleet: Fleet, *, forms: bool = False) -> AsyncIterator[Editor]:
    """Start `swarm acp` in an editor, and initialize it."""
    editor = Editor()
    can = ClientCapabilities(elicitation=ElicitationCapabilities(form={}) if forms else None)  # type: ignore[arg-type]
    async with spawn_agent_process(
        editor,  # type: ignore[arg-type]
        sys.executable,
        *("-m", "swarm", "acp"),
        env=fleet.environment(),
        cwd=fleet.workspace,
        use_unstable_protocol=True,
        transport_kwargs={"limit": 1 << 24, "stderr": None},
    ) as (agent, process):
        editor.agent, editor.process = agent, process
        about = Implementation(name="test-editor", version="1")
        told = await agent.initialize(PROTOCOL_VERSION, client_capabilities=can, client_info=about)
        assert told.protocol_version == PROTOCOL_VERSION and told.agent_info.name == "swarm"
        yield editor
