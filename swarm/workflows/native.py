"""The front end for people's own async functions: ordinary asyncio on a deterministic loop."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from swarm.workflows.desk import Desk, ProgramEnd, end_with, fail_with
from swarm.workflows.flow import Flow
from swarm.workflows.loop import ReplayLoop
from swarm.workflows.results import as_data, bind_task


class NativeProgram:
    """One run of a function."""

    is_light = True

    def __init__(self, function: Callable[..., Awaitable[Any]], desk: Desk, task: str) -> None:
        self._function, self._desk, self._given = function, desk, task
        self._loop = ReplayLoop(desk)
        self._task: asyncio.Task[Any] | None = None
        self.ended: ProgramEnd | None = None

    def start(self) -> None:
        """Run from the beginning until it waits."""
        try:
            args = bind_task(self._function, self._given)
        except Exception as error:
            self.ended = fail_with(str(error))
            return
        self._flow = Flow(self._desk, args)
        self._task = self._loop.create_task(self._run(args), name="workflow")
        self.tick()

    async def _run(self, args: dict[str, Any]) -> Any:
        return as_data(await self._function(self._flow, **args))

    def tick(self) -> None:
        """Continue what waited for the desk's time."""
        try:
            self._loop.spin()
        except (Exception, SystemExit) as error:
            self.ended = fail_with(_describe(error))
            return
        if self._task is not None and self._task.done():
            fault = asyncio.CancelledError() if self._task.cancelled() else self._task.exception()
            self.ended = end_with(self._task.result()) if fault is None else fail_with(_describe(fault))

    def settle(self, call_id: str, text: str, *, failed: bool) -> None:
        """Give it a call's result, and continue until it waits."""
        self._flow.settle(call_id, text, failed=failed)
        self.tick()

    @property
    def until(self) -> float | None:
        """The earliest time that it waits for."""
        return self._loop.until

    @property
    def place(self) -> str:
        """The line of its source that it waits at; empty if unknown."""
        waiting: Any = None if self._task is None else self._task.get_coro()
        place = ""
        while (frame := getattr(waiting, "cr_frame", None)) is not None:
            if not _is_ours(frame.f_code.co_filename):
                place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            waiting = waiting.cr_await
        return place

    def close(self) -> None:
        """Drop it."""
        self._desk.closed = True
        self._task = None


def _describe(error: BaseException) -> str:
    """Say what went wrong and where in the program."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_describe, error.exceptions))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _is_ours(filename: str) -> bool:
    return filename.startswith("<") or "/asyncio/" in filename or "/swarm/workflows/" in filename
