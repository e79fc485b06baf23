"""What a journal amounts to at a cut, kept with the entry that made it: whoever loads the agent reads from there on.

It is a shortcut and no state: the whole journal gives the same life, and does where this is missing or of another version.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from swarm.agent.entries import Compacted, Started
from swarm.agent.history import History

_VERSION = 2
_ELSEWHERE = {"spec", "system", "tools", "kinds", "guidance"}
"""They are in the journal's first entry, or in that of the agent that a fork began with."""


@cache
def _adapter() -> TypeAdapter[History]:
    return TypeAdapter(History)


def foresee(history: History, entry: Compacted) -> dict[str, Any]:
    """What the life will amount to once it has taken in this entry; it has not changed."""
    ahead = copy.copy(history)
    ahead.apply(entry)
    return {"v": _VERSION, "history": _adapter().dump_python(ahead, mode="json", exclude=_ELSEWHERE)}


def restore(agent_id: str, started: Started, prefix: Started, entry: Compacted) -> History | None:
    """The life at this entry; None if the snapshot cannot be used here.

    `prefix` has the system prompt and the tools: for a fork it is another agent's first entry.
    """
    folded = entry.folded
    if folded is None or folded.get("v") != _VERSION:
        return None
    try:
        history = _adapter().validate_python(folded["history"])
    except ValidationError:
        return None
    history.spec, history.system, history.tools = started.spec, prefix.system, prefix.tools
    history.guidance, history.kinds = prefix.guidance, dict(prefix.kinds)
    return history if history.agent_id == agent_id else None
