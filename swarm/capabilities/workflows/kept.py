"""The program of the last large workflow that parked here, kept to continue without a replay if it wakes in the same process.

It saves time and nothing else: it is used only if it has followed a beginning of the agent's journal, and dropped for the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from swarm.agent.entries import Advanced, ToolFinished
from swarm.workflows.replay import Replay

LEAST_ENTRIES = 50
"""A shorter journal is replayed within milliseconds."""
_kept: dict[str, Replay] = {}
"""Agent id → its program; at most one."""


def keep(agent_id: str, replay: Replay, entries: int) -> None:
    """Keep a program that waits, if it is light and its replay would take time."""
    if replay.program.is_light and entries >= LEAST_ENTRIES:
        for other in [one for one in _kept if one != agent_id]:
            drop(other)
        _kept[agent_id] = replay


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


def is_kept(agent_id: str) -> bool:
    """Whether the agent's program is here."""
    return agent_id in _kept
