"""An editor for tests that speaks the protocol by hand, because the SDK drops child sessions, which it does not know."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.fleet import Fleet


class LineEditor:
    """One run of `swarm acp`. Requests for permission wait until `answer` has an option's kind."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.withdrawn: list[Any] = []
        self._number = 0
        self._awaited: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            match message:
                case {"method": "session/update", "params": {"sessionId": session, "update": update}}:
                    self.told.append((session, update))
                case {"method": "$/cancel_request", "params": {"requestId": request}}:
                    self.withdrawn.append(request)
                case {"method": _, "id": _}:
                    self.asked.append(message)
                case {"id": number}:
                    self._awaited.pop(number).set_result(message)
            self._news.set()
        for waiting in self._awaited.values():
            waiting.cancel()

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        answer = await self.begin(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    def begin(self, method: str, **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request; the future has the whole answer."""
        self._number += 1
        waiting = self._awaited[self._number] = asyncio.get_running_loop().create_future()
        self.send(id=self._number, method=method, params=params)
        return waiting

    def reply(self, asked: dict[str, Any], kind: str) -> None:
        """Answer a request for permission with the option of that kind."""
        option = next(one["optionId"] for one in asked["params"]["options"] if one["kind"] == kind)
        self.send(id=asked["id"], result={"outcome": {"outcome": "selected", "optionId": option}})

    async def until(self, what: str, found: Callable[[], Any]) -> Any:
        async with asyncio.timeout(60):
            while not (answer := found()):
                self._news.clear()
                await self._news.wait()
        return answer

    def of_kind(self, kind: str, session: str = "") -> list[tuple[str, dict[str, Any]]]:
        return [
            (where, update) for where, update in self.told if update["sessionUpdate"] == kind and session in ("", where)
        ]

    def text(self, session: str, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for _, update in self.of_kind(kind, session))

    def prompt(self, session: str, text: str) -> asyncio.Future[dict[str, Any]]:
        return self.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


@asynccontextmanager
async def open_lines(fleet: Fleet, **capabilities: Any) -> AsyncIterator[LineEditor]:
    """Start `swarm acp`, and initialize it as an editor with these capabilities."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "swarm", "acp"),
        env=fleet.environment(),
        cwd=fleet.workspace,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    editor = LineEditor(process)
    try:
        about = {"name": "lines", "version": "1"}
        await editor.call("initialize", protocolVersion=1, clientCapabilities=capabilities, clientInfo=about)
        yield editor
    finally:
        if process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.wait_for(process.wait(), 20)
        await editor._reading
