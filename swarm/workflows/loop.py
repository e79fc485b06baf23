"""A deterministic event loop: first in, first out, with the desk's time, and without threads, files and sockets."""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import nullcontext
from contextvars import Context
from typing import Any

from swarm.core.errors import NotRepeatable
from swarm.workflows.desk import Desk
from swarm.workflows.guard import refusing

MOST_STEPS = 1_000_000
"""Most callbacks between two waits; a program beyond them never waits."""


class _ReplayTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks, as in `TaskGroup` and `wait`, have one order in every process."""

    number: int

    def __new__(cls, *args: Any, number: int, **given: Any) -> _ReplayTask:
        # It is put into a set while it is initialized.
        made = super().__new__(cls, *args, **given)
        made.number = number
        return made

    def __init__(self, *args: Any, number: int, **given: Any) -> None:
        super().__init__(*args, **given)

    def __hash__(self) -> int:
        return self.number


class ReplayLoop:
    """The part of a loop that `asyncio`'s tasks, timeouts, semaphores and queues need. All else is refused."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._made = 0
        self._as_loop: Any = self

    def spin(self) -> None:
        """Run until everything waits. Timers that are due by the desk's time run in the order of their times."""
        steps = 0
        events._set_running_loop(self._as_loop)
        try:
            # The watch costs twice the time of a program that starts many agents.
            with nullcontext() if self._desk.proven else refusing():
                while self._ready or self._wake():
                    handle = self._ready.popleft()
                    if not handle.cancelled():
                        handle._run()
                    steps += 1
                    if steps > MOST_STEPS:
                        raise RuntimeError(f"the workflow has run {MOST_STEPS:,} steps without waiting for anything")
        finally:
            events._set_running_loop(None)

    def _wake(self) -> bool:
        if self.until is None or self.until > self._desk.now:
            return False
        self._ready.append(heapq.heappop(self._timers)[2])
        return True

    @property
    def until(self) -> float | None:
        """The time of the next timer, Unix seconds."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    # -- what asyncio asks of a loop -----------------------------------------------------------------------

    def time(self) -> float:
        """The desk's time."""
        return self._desk.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        """Append a callback."""
        handle = asyncio.Handle(callback, args, self._as_loop, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback at a time."""
        handle = asyncio.TimerHandle(when, callback, args, self._as_loop, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback after some seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future of this loop."""
        return asyncio.Future(loop=self._as_loop)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        """Make a task of this loop. Names are counted for the loop alone: asyncio counts for the process."""
        self._made += 1
        name = name or f"task-{self._made}"
        return _ReplayTask(coro, loop=self._as_loop, name=name, context=context, number=self._made)

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def is_running(self) -> bool:
        """Return True: its tasks run in it alone."""
        return True

    def is_closed(self) -> bool:
        """Return False."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore an error that no task awaits, as asyncio does after reporting it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotRepeatable(f"the event loop's {name}", "use an agent or flow.call()")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave a cancelled timer in its place; it is skipped there."""
