"""What people see of an agent at work, beside its journal: what it does now, and what its model is saying."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import redis

from swarm.core.plain import clean_text
from swarm.core.records import Counters
from swarm.store.library import STEPS
from swarm.store.upkeep import Upkeep
from swarm.store.values import Claim, Piece

_SILENT_SECONDS = 10.0


class Showing(Upkeep):
    """The part of a store that tells what decides nothing.

    Whoever tells it is listening to a model that is paid for, so nothing here waits for a Redis that is away, or fails.
    """

    _silent_until = 0.0

    def tell_activity(self, claim: Claim, activity: str) -> bool:
        """Say what a running agent does now. Returns whether anybody looks."""
        return self._tell("tell_activity", claim.agent_id, claim.generation, clean_text(activity))

    def tell_progress(self, claim: Claim, line: str) -> bool:
        """Tell how far a running agent's call has come; returns whether the agent is the claim's still."""
        return self._tell("tell_progress", claim.agent_id, claim.generation, clean_text(line))

    def tell_words(self, claim: Claim, entry: int, pieces: Sequence[Piece]) -> bool:
        """Pass on what the model has said of a reply, which will be the journal's entry `entry`, if anybody looks; returns whether."""
        words = [
            part
            for piece in pieces
            for part in (piece.block, piece.type, piece.name, piece.begin, clean_text(piece.text))
        ]
        return self._tell("tell_words", claim.agent_id, claim.generation, entry, *words)

    def begin_summary(self, agent_id: str, length: int, interval: float, tokens: int, cost: int) -> bool:
        """Set aside what a summary takes, if one is due and the purse has plenty; returns whether. `cost` is in nano-dollars.

        Raises `redis.RedisError`.
        """
        return bool(STEPS.run(self.hasty, "begin_summary", self.prefix, agent_id, length, interval, tokens, cost))

    def tell_summary(self, agent_id: str, sort: str, text: str, counters: Counters) -> None:
        """Tell one, empty if it was not to be had, and settle what it took. Raises `redis.RedisError`."""
        changed = json.dumps(counters.changed())
        STEPS.run(self.hasty, "tell_summary", self.prefix, agent_id, sort, clean_text(text), changed)

    def _tell(self, step: str, *arguments: str | int) -> bool:
        if time.monotonic() < self._silent_until:
            return False
        try:
            return bool(STEPS.run(self.hasty, step, self.prefix, *arguments))
        except (redis.RedisError, OSError):
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            return False
