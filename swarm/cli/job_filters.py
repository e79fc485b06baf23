"""Which jobs a person wants to see: by state, age and words. The newest come first, and no more are fetched than it takes."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from swarm.client import Swarm
from swarm.errors import ConfigurationError
from swarm.records import JobView

WANTED = ("running", "asking", "completed", "failed", "cancelled", "timed_out")
_FIRST_LOOK = 200


@dataclass(frozen=True)
class JobFilter:
    """What is wanted; without anything every job is."""

    states: tuple[str, ...] = ()
    """Any of these; `asking`: it has a question that is open."""
    since_seconds: float | None = None
    """Submitted within so many seconds."""
    text: str = ""
    """Words of the title, the workspace or the id, whatever their case."""

    def __post_init__(self) -> None:
        for state in self.states:
            if state not in WANTED:
                raise ConfigurationError(f"no job is {state!r}; the states are {', '.join(WANTED)}")

    def takes(self, view: JobView, asking: int) -> bool:
        """Whether this job is wanted."""
        if self.states and view.state not in self.states and not (asking and "asking" in self.states):
            return False
        return self.text.lower() in f"{view.id}\n{view.title}\n{view.workspace}".lower()

    def find(self, swarm: Swarm, count: int, asking: Counter[str]) -> list[JobView]:
        """The newest jobs that are wanted, at most `count`."""
        look = count if self == JobFilter() else max(count, _FIRST_LOOK)
        while True:
            views = swarm.jobs(look)
            young = [view for view in views if not self._is_old(view)]
            found = [view for view in young if self.takes(view, asking[view.id])]
            if len(found) >= count or len(young) < len(views) or len(views) < look:
                return found[:count]
            look *= 4

    def _is_old(self, view: JobView) -> bool:
        return self.since_seconds is not None and view.created_at < time.time() - self.since_seconds
