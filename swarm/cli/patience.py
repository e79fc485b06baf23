"""Progress notes: a line every ten seconds explains the wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from swarm.cli.output import one_line, print_note, show_number
from swarm.cli.tree_view import count_alive, describe_now
from swarm.streaming.live.rows import Row

SILENCE_SECONDS = 10.0
_NAMED = 2


@contextlib.contextmanager
def said(
    what: str, say: Callable[[str], None] = print_note, *, every_seconds: float = SILENCE_SECONDS
) -> Iterator[None]:
    """Repeat a progress note while the block runs."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(every_seconds):
            say(f"still {what}")

    thread = threading.Thread(target=tell, name="swarm-patience", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class SilenceWatch:
    """Measures how long nothing has been printed."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def break_off(self) -> None:
        """Restart the silence after output."""
        self._since = time.monotonic()

    def is_long(self) -> bool:
        """Whether a note is due; asking restarts the silence."""
        if time.monotonic() - self._since < SILENCE_SECONDS:
            return False
        self.break_off()
        return True


def describe_waiting(agents: Sequence[Row]) -> str:
    """Describe in one line what a job waits for; agents that only wait for other agents are left out."""
    alive = count_alive(agents)
    busy = [agent for agent in agents if agent["at_work"] and not alive[agent["id"]]]
    if not busy:
        return "waiting for its remaining work" if agents else "waiting for its first agent"
    named = [f"{one_line(agent['label'], 60)}: {_describe(agent)}" for agent in _most_telling(busy)[:_NAMED]]
    more = f"; and {show_number(len(busy) - len(named), 'more agent')}" if len(busy) > len(named) else ""
    return f"waiting for {'; '.join(named)}{more}"


def _most_telling(busy: Sequence[Row]) -> list[Row]:
    """Sort agents with a reason to wait first."""
    order = {"parked": 0, "running": 1, "queued": 2}
    return sorted(busy, key=lambda agent: (not agent["unserved"], order.get(agent["state"], 3)))


def _describe(agent: Row) -> str:
    told = describe_now(agent, 0) or ("the model" if agent["state"] == "running" else "a process")
    return one_line(told, 120)
