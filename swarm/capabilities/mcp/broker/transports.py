"""How the broker reaches a server: a process that it starts and that nothing of is left, or a URL."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from swarm.capabilities.mcp.broker.admission import Admission

KEEPER = Path(__file__).with_name("keeper.py")
_KEPT_BYTES = 4_096
"""Of what a server says on its standard error: its last words, for whoever has to find out why it ended."""
_CONNECT_SECONDS, _SILENCE_SECONDS = 30.0, 3_600.0


class StderrTail:
    """The end of what a server wrote to its standard error; a pipe, so that it fills no disk."""

    def __init__(self) -> None:
        self._kept = b""
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        asyncio.get_running_loop().add_reader(self._reading, self._read)
        self.file = os.fdopen(self._writing, "w")

    def _read(self) -> None:
        try:
            data = os.read(self._reading, 65_536)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._reading)
        self._kept = (self._kept + data)[-_KEPT_BYTES:]

    @property
    def text(self) -> str:
        """What is kept, as lines; empty if it said nothing."""
        return self._kept.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Let the pipe go, with what has not been read yet kept."""
        self._read_rest()
        asyncio.get_running_loop().remove_reader(self._reading)
        self.file.close()
        os.close(self._reading)

    def _read_rest(self) -> None:
        try:
            while data := os.read(self._reading, 65_536):
                self._kept = (self._kept + data)[-_KEPT_BYTES:]
        except OSError:
            pass


@asynccontextmanager
async def open_transport(
    launch: dict[str, Any], ended: asyncio.Event, said: StderrTail, admission: Admission
) -> AsyncGenerator[Any, None]:
    """The streams to a server; `ended` is set when it has hung up; `admission` is of its requests.

    What a launch holds is said by `swarm.capabilities.mcp.launch`.
    """
    match launch["transport"]:
        case "stdio":
            async with _watched(_start(launch, said), ended) as streams:
                yield streams
        case "sse":
            async with _watched(sse_client(launch["url"], headers=launch["headers"], auth=admission), ended) as streams:
                yield streams
        case _:
            limits = httpx2.Timeout(_CONNECT_SECONDS, read=_SILENCE_SECONDS)
            async with (
                httpx2.AsyncClient(headers=launch["headers"], timeout=limits, auth=admission) as http,
                streamable_http_client(launch["url"], http_client=http) as streams,
            ):
                yield streams


def _start(launch: dict[str, Any], said: StderrTail) -> Any:
    keeper = [sys.executable, "-I", "-S", str(KEEPER), *launch["argv"]]
    server = StdioServerParameters(command=keeper[0], args=keeper[1:], env=launch["env"], cwd=launch["cwd"])
    return stdio_client(server, errlog=said.file)


@asynccontextmanager
async def _watched(transport: Any, ended: asyncio.Event) -> AsyncGenerator[Any, None]:
    async with transport as (read, write):
        send, receive = anyio.create_memory_object_stream[Any](0)

        async def pass_on() -> None:
            async with send:
                async for message in read:
                    await send.send(message)
            ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(pass_on)
            yield receive, write
            group.cancel_scope.cancel()
