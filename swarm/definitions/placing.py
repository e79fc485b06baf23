"""Where and how an agent of a type works: what its file says of that, in the words of the systems that it may come from."""

from __future__ import annotations

import re
from typing import Any, get_args

from swarm.definitions.model import Execution, Isolation
from swarm.definitions.sources import show


def read_placing(isolation: str, kind: str, minutes: str, warnings: list[str]) -> dict[str, Any]:
    """What the keys `isolation`, `kind` and `timeoutMins` mean; nothing of those that are not there."""
    values: dict[str, Any] = {}
    if given := isolation.strip().lower():
        if given not in get_args(Isolation):
            # The safe guess: what works on a copy of its own spoils nothing.
            warnings.append(f"unknown `isolation` {show(isolation)}; 'worktree' is used")
            given = "worktree"
        values["isolation"] = given
    if given := kind.strip().lower():
        if given in get_args(Execution):
            values["kind"] = given
        else:
            warnings.append(f"unknown `kind` {show(kind)}; it is ignored (known: {', '.join(get_args(Execution))})")
    if given := minutes.strip():
        if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", given) and float(given) > 0:
            values["timeout_seconds"] = 60 * float(given)
        else:
            warnings.append(f"`timeoutMins` is {show(minutes)}, not a number of minutes; it is ignored")
    return values
