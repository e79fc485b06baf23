"""One call at a server: what comes of it, in order, for whoever is connected, or will be.

A call that waits for a person's answer has nobody connected: it is taken up again by its ticket, or ends when its time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

Event = dict[str, Any]
FINAL = ("result", "failed")
ASKED = "asked"


class ServerCall:
    """A call under way."""

    def __init__(self, ticket: str) -> None:
        self.ticket = ticket
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._answer: asyncio.Future[Event] | None = None
        self._task: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    def start(self, work: Coroutine[Any, Any, Event]) -> None:
        """Carry it out; the event that `work` returns is its last."""
        self._task = asyncio.create_task(self._carry_out(work))

    async def _carry_out(self, work: Coroutine[Any, Any, Event]) -> None:
        self.tell(await work)

    @property
    def has_ended(self) -> bool:
        """Whether its last event is there."""
        return self._task is not None and self._task.done()

    @property
    def waits_for_answer(self) -> bool:
        """Whether it goes on only when it is answered."""
        return self._answer is not None

    def tell(self, event: Event) -> None:
        """Something has come of it."""
        self._events.put_nowait(event)

    async def next_event(self) -> Event:
        """What comes next of it."""
        return await self._events.get()

    async def ask(self, requests: dict[str, Any]) -> Event:
        """Have somebody asked, and wait for the answers, by the same names."""
        self._answer = asyncio.get_running_loop().create_future()
        self.tell({ASKED: {"requests": requests, "state": None, "held": True}})
        try:
            return await self._answer
        finally:
            self._answer = None

    def answer(self, answers: Event) -> None:
        """What was answered; nothing is done with it if nobody asked."""
        if self._expiry is not None:
            self._expiry.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answers)

    def expire_in(self, seconds: float) -> None:
        """End it if nobody has taken it up by then."""
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        """End it; its server is told."""
        if self._task is not None:
            self._task.cancel()
