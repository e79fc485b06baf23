"""One call at a server: its events in order, for the connected worker or a later one.

A call that waits for a person's answer has no connection. A request with its ticket continues it; otherwise it ends after its hold time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

Event = dict[str, Any]
FINAL = ("result", "failed")
ASKED = "asked"


class ServerCall:
    """A running call."""

    def __init__(self, ticket: str) -> None:
        self.ticket = ticket
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._answer: asyncio.Future[Event] | None = None
        self._task: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    def start(self, work: Coroutine[Any, Any, Event]) -> None:
        """Carry the call out; the event that `work` returns is its last."""
        self._task = asyncio.create_task(self._carry_out(work))

    async def _carry_out(self, work: Coroutine[Any, Any, Event]) -> None:
        self.tell(await work)

    @property
    def has_ended(self) -> bool:
        """Whether the call's last event has arrived."""
        return self._task is not None and self._task.done()

    @property
    def waits_for_answer(self) -> bool:
        """Whether the call continues only after an answer."""
        return self._answer is not None

    def tell(self, event: Event) -> None:
        """Add an event of the call."""
        self._events.put_nowait(event)

    async def next_event(self) -> Event:
        """Return the call's next event."""
        return await self._events.get()

    async def ask(self, requests: dict[str, Any]) -> Event:
        """Send questions and wait for the answers, which have the same names."""
        self._answer = asyncio.get_running_loop().create_future()
        self.tell({ASKED: {"requests": requests, "state": None, "held": True}})
        try:
            return await self._answer
        finally:
            self._answer = None

    def answer(self, answers: Event) -> None:
        """Pass on the answers; ignored if the call asked nothing."""
        if self._expiry is not None:
            self._expiry.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answers)

    def expire_in(self, seconds: float) -> None:
        """End the call unless a worker continues it within so many seconds."""
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        """End the call and notify its server."""
        if self._task is not None:
            self._task.cancel()
