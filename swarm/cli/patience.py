"""Never silent for long: whoever waits is told every ten seconds what for."""

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
    """While this lasts, say every so often that it does."""
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
    """How long nothing was said."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def break_off(self) -> None:
        """Something is said now."""
        self._since = time.monotonic()

    def is_long(self) -> bool:
        """Whether something should be said; asked again, it begins anew."""
        if time.monotonic() - self._since < SILENCE_SECONDS:
            return False
        self.break_off()
        return True


def describe_waiting(agents: Sequence[Row]) -> str:
    """What a job whose agents these are waits for, in a line; those that only wait for others are not named."""
    alive = count_alive(agents)
    busy = [agent for agent in agents if agent["at_work"] and not alive[agent["id"]]]
    if not busy:
        return "waiting for what is left to do of it" if agents else "waiting for its first agent"
    named = [f"{one_line(agent['label'], 60)}: {_describe(agent)}" for agent in _most_telling(busy)[:_NAMED]]
    more = f"; and {show_number(len(busy) - len(named), 'more agent')}" if len(busy) > len(named) else ""
    return f"waiting for {'; '.join(named)}{more}"


def _most_telling(busy: Sequence[Row]) -> list[Row]:
    """Those that something keeps waiting come first."""
    order = {"parked": 0, "running": 1, "queued": 2}
    return sorted(busy, key=lambda agent: (not agent["unserved"], order.get(agent["state"], 3)))


def _describe(agent: Row) -> str:
    told = describe_now(agent, 0) or ("the model" if agent["state"] == "running" else "a process")
    return one_line(told, 120)
