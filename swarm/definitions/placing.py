"""Where an agent of a type works: what its file says of that, in the words of the systems that it may come from."""

from __future__ import annotations

from typing import Any, get_args

from swarm.definitions.model import Isolation
from swarm.definitions.sources import show


def read_placing(isolation: str, warnings: list[str]) -> dict[str, Any]:
    """What these keys mean; nothing of those that are not there."""
    given = isolation.strip().lower()
    if not given:
        return {}
    if given not in get_args(Isolation):
        # The safe guess: what works on a copy of its own spoils nothing.
        warnings.append(f"unknown `isolation` {show(isolation)}; 'worktree' is used")
        given = "worktree"
    return {"isolation": given}
