"""Where, how and under which names agents of a type work: what its file says of that, in the words of the systems that it may come from."""

from __future__ import annotations

import re
from typing import Any, get_args

from swarm.definitions.model import Execution, Isolation
from swarm.definitions.sources import as_text, show

_MAX_NICKNAMES = 100


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


def read_nicknames(given: Any, warnings: list[str]) -> list[str]:
    """The names that agents of a type are given, each once: Codex's `nickname_candidates`; a name with blanks is written with hyphens."""
    if given is None:
        return []
    if not isinstance(given, list):
        warnings.append(f"`nicknames` is {show(given)}, not a list of names; it is ignored")
        return []
    names = dict.fromkeys(re.sub(r"\s+", "-", as_text(name).strip()) for name in given)
    unfit = [name for name in names if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)]
    if unfit:
        warnings.append(f"{', '.join(map(show, unfit))} cannot be agents' names; they are left out of `nicknames`")
    return [name for name in names if name not in unfit][:_MAX_NICKNAMES]
