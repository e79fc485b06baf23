"""The program of the last large workflow that parked here, kept to continue without a replay if it wakes in the same process.

It saves time and nothing else: it is used only if it has followed a beginning of the agent's journal, and dropped for the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from swarm.agent.entries import Advanced, ToolFinished
from swarm.workflows.replay import Replay

LEAST_ENTRIES = 50
"""A shorter journal is replayed within milliseconds."""
MOST_CHARACTERS = 16_000_000
"""Most characters of all results that a process keeps."""
_kept: dict[str, Replay] = {}
"""Agent id → its program; at most one."""


def is_worth_keeping(lived: Sequence[Advanced | ToolFinished]) -> bool:
    """Whether reading and replaying this journal again would take time, and what it holds is not too much to keep."""
    texts = (len(entry.text) for entry in lived if isinstance(entry, ToolFinished))
    return len(lived) >= LEAST_ENTRIES and sum(texts) <= MOST_CHARACTERS


def keep(agent_id: str, replay: Replay) -> bool:
    """Keep a program that waits, if it is light. Returns whether it is kept.

    The caller must not use it afterwards: the next segment, perhaps in another thread, may have it.
    """
    if not replay.program.is_light:
        return False
    for other in list(_kept):
        drop(other)
    _kept[agent_id] = replay
    return True


def take(agent_id: str, lived: Sequence[Advanced | ToolFinished]) -> Replay | None:
    """Take out the agent's program, if it is here and fits its journal."""
    replay = _kept.pop(agent_id, None)
    if replay is None or replay.fits(lived):
        return replay
    replay.program.close()
    return None


def drop(agent_id: str) -> None:
    """Forget an agent's program."""
    if (replay := _kept.pop(agent_id, None)) is not None:
        replay.program.close()
