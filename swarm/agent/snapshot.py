"""Folded state at a cut, stored with its entry, so that loading an agent begins there.

It is a shortcut, not state: the whole journal gives the same history, and is used where the snapshot is missing or of another version.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from swarm.agent.entries import Compacted, Started
from swarm.agent.history import History

_VERSION = 4
_ELSEWHERE = {"spec", "system", "tools", "kinds", "offers", "guidance"}
"""Fields stored in the journal's first entry, or in that of the agent that a fork began with."""


@cache
def _adapter() -> TypeAdapter[History]:
    return TypeAdapter(History)


def foresee(history: History, entry: Compacted) -> dict[str, Any]:
    """Return the folded state after this entry; the history stays unchanged."""
    ahead = copy.copy(history)
    ahead.apply(entry)
    return {"v": _VERSION, "history": _adapter().dump_python(ahead, mode="json", exclude=_ELSEWHERE)}


def restore(agent_id: str, started: Started, prefix: Started, entry: Compacted) -> History | None:
    """Restore the history at this entry; None if the snapshot cannot be used here.

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
    history.guidance, history.kinds, history.offers = prefix.guidance, dict(prefix.kinds), dict(prefix.offers)
    return history if history.agent_id == agent_id else None
