"""Receive the browser's redirect after a login: on a local port, or as a line pasted from another machine."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

PATH = "/callback"
_PAGE = "<!doctype html><meta charset=utf-8><title>swarm</title><p>{said} You can close this page.</p>"
_MAX_LINE = 64 * 1024
Receive = Callable[[], Awaitable[dict[str, str]]]


@asynccontextmanager
async def listen(port: int, seconds: float) -> AsyncGenerator[tuple[str, Receive], None]:
    """Return the redirect address, and a function that waits for the parameters, called or pasted.

    `port` 0 takes a free port. The wait raises `TimeoutError` after `seconds`.
    """
    loop, found = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def take(address: str) -> bool:
        given = dict(parse_qsl(urlsplit(address.strip()).query))
        if "code" not in given and "error" not in given:
            return False
        if not found.done():
            found.set_result(given)
        return True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        words = (await reader.readline()).decode("latin-1").split()
        good = len(words) > 1 and urlsplit(words[1]).path == PATH and take(words[1])
        body = _PAGE.format(
            said="The login continues where it was begun." if good else "There is no login here."
        ).encode()
        status = "200 OK" if good else "404 Not Found"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    def read_pasted() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(take, line[:_MAX_LINE])

    async def receive() -> dict[str, str]:
        # The thread ends with the process: a read of a terminal cannot be interrupted.
        threading.Thread(target=read_pasted, daemon=True).start()
        return dict(await asyncio.wait_for(found, seconds))

    # A client that was registered by hand names `localhost`; any other names the address.
    host = "localhost" if port else "127.0.0.1"
    async with await asyncio.start_server(serve, host, port, limit=_MAX_LINE) as server:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}{PATH}", receive
