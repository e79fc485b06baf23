"""Events of jobs, and what people see of an agent at work: what it does now, what its model is saying, its summary."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import redis

from swarm.core.plain import clean_text
from swarm.core.records import Counters
from swarm.store.keyspace import Keyspace
from swarm.store.values import Claim, Piece

_SILENT_SECONDS = 10.0


class EventStore:
    """The events of jobs; none of them decides anything.

    A `tell_*` call comes from a process that listens to a paid model, so it neither waits for a Redis that is away, nor fails.
    """

    _silent_until = 0.0

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def emit(self, job_id: str, kind: str, agent_id: str, **fields: str) -> None:
        """Add an event that no other step makes: something for people to see, which decides nothing."""
        self._keyspace.run("emit_event", job_id, kind, agent_id, *(part for field in fields.items() for part in field))

    def emit_once(self, job_id: str, kind: str, agent_id: str, *, why: str) -> bool:
        """The same with a reason, unless the agent's last event of this kind gave the same one; whether it was news."""
        return bool(self._keyspace.run("emit_once", job_id, kind, agent_id, why))

    def show_activity(self, claim: Claim, activity: str) -> bool:
        """Say what a running agent does now. Returns whether anybody looks."""
        return self._tell("show_activity", claim.agent_id, claim.generation, clean_text(activity))

    def show_progress(self, claim: Claim, line: str) -> bool:
        """Tell how far a running agent's call has come; returns whether the agent is the claim's still."""
        return self._tell("show_progress", claim.agent_id, claim.generation, clean_text(line))

    def show_tokens(self, claim: Claim, entry: int, pieces: Sequence[Piece]) -> bool:
        """Pass on what the model has said of a reply, which will be the journal's entry `entry`, if anybody looks; returns whether."""
        words = [
            part
            for piece in pieces
            for part in (piece.block, piece.type, piece.name, piece.begin, clean_text(piece.text))
        ]
        return self._tell("show_tokens", claim.agent_id, claim.generation, entry, *words)

    def _tell(self, step: str, *arguments: str | int) -> bool:
        if time.monotonic() < self._silent_until:
            return False
        try:
            return bool(self._keyspace.run_now(step, *arguments))
        except (redis.RedisError, OSError):
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            return False

    def begin_summary(self, agent_id: str, length: int, interval: float, tokens: int, cost: int) -> bool:
        """Set aside what a summary takes, if one is due and the purse has plenty; returns whether. `cost` is in nano-dollars.

        Raises `redis.RedisError`.
        """
        return bool(self._keyspace.run_now("begin_summary", agent_id, length, interval, tokens, cost))

    def show_summary(self, agent_id: str, sort: str, text: str, counters: Counters) -> None:
        """Tell one, empty if it was not to be had, and settle what it took. Raises `redis.RedisError`."""
        changed = json.dumps(counters.changed())
        self._keyspace.run_now("show_summary", agent_id, sort, clean_text(text), changed)
