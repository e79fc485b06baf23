"""JSON-RPC 2.0 with one editor, a message a line.

Requests and notifications of the editor run beside each other, begun in the order of their lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import IO, Any

from swarm.client.failures import Refusal, explain

log = logging.getLogger("swarm.acp")
NO_METHOD, BAD_REQUEST, BAD_PARAMETERS, FAILED, NOT_THERE, CANCELLED = -32601, -32600, -32602, -32603, -32002, -32800
_CODES = {400: BAD_PARAMETERS, 403: BAD_PARAMETERS, 404: NOT_THERE, 409: BAD_PARAMETERS, 410: NOT_THERE}
"""HTTP status of a refusal → code of the error; others are failures."""

Params = dict[str, Any]
Method = Callable[[Params], Awaitable[Params | None]]


class NoAnswer(Exception):
    """The editor refused a request, or has gone."""


class EditorPeer:
    """The editor at the other end: its requests go to `methods`, its notifications to `notifications`, both by name."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self.methods: dict[str, Method] = {}
        self.notifications: dict[str, Method] = {}
        self.withdrawals: dict[str, Method] = {}
        """Called when the editor withdraws a request; others are simply cancelled."""
        self._source, self._sink = source, sink
        self._number = 0
        self._awaited: dict[int, asyncio.Future[Any]] = {}
        self._running: dict[str, tuple[asyncio.Task[None], str, Params]] = {}
        """Requests of the editor under way, by the JSON of their ids: the task, the method and its parameters."""
        self._notes: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Answer the editor until it closes its end."""
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            # A thread, because standard input may be a file, which no event loop can wait for.
            with contextlib.suppress(RuntimeError):  # the loop has ended first
                for line in self._source:
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                loop.call_soon_threadsafe(lines.put_nowait, b"")

        threading.Thread(target=read, name="swarm-acp-input", daemon=True).start()
        while line := await lines.get():
            if line.strip():
                await self._take(line)
        for waiting in self._awaited.values():
            waiting.set_exception(NoAnswer("the editor has gone"))
        self._awaited.clear()
        # A cancellation counts, too, if the editor goes right after it.
        await asyncio.gather(*self._notes)

    async def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError as error:
            self._send({"id": None, "error": {"code": -32700, "message": f"the line is not JSON: {error}"}})
            return
        match message:
            case {"method": "$/cancel_request", "params": {"requestId": request}}:
                self._withdraw(json.dumps(request))
            case {"method": str(method), "id": request}:
                key, params = json.dumps(request), message.get("params") or {}
                task = asyncio.create_task(self._answer(request, method, params))
                self._running[key] = (task, method, params)
                task.add_done_callback(lambda _: self._running.pop(key, None))
            case {"method": str(method)} if (run := self.notifications.get(method)) is not None:
                self._begin_note(run, method, message.get("params") or {})
            case {"method": _}:
                pass  # a notification of a newer version
            case {"id": int(number)} if number in self._awaited:
                self._settle(self._awaited.pop(number), message)
            case {"id": _}:
                pass  # an answer to a request that was withdrawn meanwhile
            case _:
                self._send({"id": None, "error": {"code": BAD_REQUEST, "message": "the line is no JSON-RPC message"}})

    async def _answer(self, request: Any, method: str, params: Params) -> None:
        run = self.methods.get(method)
        if run is None:
            known = ", ".join(sorted(self.methods))
            said = {"code": NO_METHOD, "message": f"there is no method {method!r}; there are {known}"}
            self._send({"id": request, "error": said})
            return
        try:
            result = await run(params)
        except asyncio.CancelledError:
            self._send({"id": request, "error": {"code": CANCELLED, "message": "the request was cancelled"}})
        except Exception as error:
            self._send({"id": request, "error": describe_failure(error, method)})
        else:
            self._send({"id": request, "result": result if result is not None else {}})

    def _withdraw(self, key: str) -> None:
        if key not in self._running:
            return
        task, method, params = self._running[key]
        if (run := self.withdrawals.get(method)) is not None:
            self._begin_note(run, method, params)
        else:
            task.cancel()

    def _begin_note(self, run: Method, method: str, params: Params) -> None:
        """Handle a notification. Later messages do not wait for it, because it may wait for Redis."""

        async def note() -> None:
            try:
                await run(params)
            except Exception as error:
                describe_failure(error, method)

        task = asyncio.create_task(note())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    def _settle(self, waiting: asyncio.Future[Any], message: Params) -> None:
        if waiting.done():
            return
        if (error := message.get("error")) is not None:
            waiting.set_exception(NoAnswer(str(error)))
        else:
            waiting.set_result(message.get("result") or {})

    # -- to the editor ---------------------------------------------------------------------------------------------

    def tell(self, method: str, params: Params) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    async def ask(self, method: str, params: Params) -> Params:
        """Send a request and wait for its result; withdraw it if the waiting task is cancelled. Raises `NoAnswer`."""
        self._number += 1
        number, waiting = self._number, asyncio.get_running_loop().create_future()
        self._awaited[number] = waiting
        self._send({"id": number, "method": method, "params": params})
        try:
            found: Params = await waiting
        except asyncio.CancelledError:
            if self._awaited.pop(number, None) is not None:
                self.tell("$/cancel_request", {"requestId": number})
            raise
        return found

    def _send(self, message: Params) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        # The only writer: an editor that reads slowly slows this process alone.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._sink.write(line.encode("utf-8", "replace") + b"\n")
            self._sink.flush()


def describe_failure(error: Exception, method: str) -> Params:
    """Return the error of JSON-RPC that reports a failure; log one that is a fault of this program."""
    refusal: Refusal = explain(error)
    if refusal.status == 500:
        log.error("%s failed", method, exc_info=error)
    return {"code": _CODES.get(refusal.status, FAILED), "message": str(refusal), "data": refusal.body["error"]}
