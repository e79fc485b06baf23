"""A call of a function in the worker, on a thread of its own, so that the agent's can watch its time and obey a stop.

To end a call, a coroutine is cancelled at its next `await`. A function that asks for its context has a second to see
`cancelled()`. Then, as in every other function, `ToolStopped` is raised at its next bytecode. A wait inside of C (a database driver's
call without a time limit, say) continues until it returns: only a sandboxed function is ended in any case.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import inspect
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from swarm.core.errors import ToolError, ToolStopped
from swarm.core.log import EventLog
from swarm.definitions.own.declaration import Declaration

log = EventLog("swarm.tools")
_LOOK_SECONDS = 0.1
_OWN_WAY_SECONDS = 1.0
_INTERRUPT_SECONDS = 2.0


def run_here(
    declaration: Declaration, stopped: threading.Event, arguments: dict[str, Any], check: Callable[[], None]
) -> object:
    """Return the function's result. `check` raises when the agent must stop; `stopped` is set when the call must end.

    Raises the function's own errors, and `ToolError` once its time has passed.
    """
    call, limit = _ThreadCall(declaration, stopped, arguments), time.monotonic() + declaration.timeout_seconds
    call.start()
    try:
        while call.is_alive() and time.monotonic() < limit:
            call.join(max(0.0, min(_LOOK_SECONDS, limit - time.monotonic())))
            check()
    except BaseException:
        _end(call)
        raise
    if call.is_alive():
        ended = _end(call)
        if not ended or isinstance(call.error, ToolStopped | asyncio.CancelledError):
            raise ToolError(_explain(declaration, ended=ended))
    if isinstance(call.error, Exception):
        raise call.error
    if call.error is not None:
        raise RuntimeError(f"{type(call.error).__name__}: {call.error}") from call.error
    return call.value


def _explain(declaration: Declaration, *, ended: bool) -> str:
    name, seconds = declaration.row.name, f"{declaration.timeout_seconds:g} s"
    if not ended:
        return f"{name} has not ended within {seconds} and could not be interrupted: it continues, and may still take effect."
    effect = " Its effects until then remain." if declaration.row.has_effects else ""
    return f"{name} did not end within {seconds} and was interrupted.{effect}"


def _end(call: _ThreadCall) -> bool:
    """Have a call end; returns whether it has."""
    call.end()
    if call.is_alive():
        log.error("tool.stuck", tool=call.declaration.row.name, place=call.declaration.place)
    return not call.is_alive()


class _ThreadCall(threading.Thread):
    def __init__(self, declaration: Declaration, stopped: threading.Event, arguments: dict[str, Any]) -> None:
        super().__init__(name=f"tool-{declaration.row.name}", daemon=True)
        self.declaration, self._ending, self._arguments = declaration, stopped, arguments
        self._world = contextvars.copy_context()
        self._cancel: Callable[[], object] | None = None
        self.value: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._world.run(self._carry_out)
        except BaseException as error:
            self.error = error

    def _carry_out(self) -> object:
        if inspect.iscoroutinefunction(self.declaration.function):
            return asyncio.run(self._await())
        return self.declaration.function(**self._arguments)

    async def _await(self) -> object:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        return await self.declaration.function(**self._arguments)

    def end(self) -> None:
        self._ending.set()
        if self._cancel is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._cancel()
        if self._cancel is not None or self.declaration.parameters.context:
            self.join(_OWN_WAY_SECONDS)
        if self.is_alive() and self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(ToolStopped))
            self.join(_INTERRUPT_SECONDS)
