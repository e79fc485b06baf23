"""Events of jobs, and an agent's live display: its activity, its model's words and its summary."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import redis

from swarm.core.plain import clean_text
from swarm.core.usage import NANO, Charge
from swarm.store.keyspace import Keyspace
from swarm.store.values import Claim, Piece

_SILENT_SECONDS = 10.0


class EventStore:
    """The events of jobs; no decision depends on them.

    The `show_*` calls come from a process that listens to a paid model, so they neither wait for an unavailable Redis nor fail.
    """

    _silent_until = 0.0

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def emit(self, job_id: str, kind: str, agent_id: str, **fields: str) -> None:
        """Add an event for people that no other step makes; no decision depends on it."""
        self._keyspace.run("emit_event", job_id, kind, agent_id, *(part for field in fields.items() for part in field))

    def emit_once(self, job_id: str, kind: str, agent_id: str, *, why: str) -> bool:
        """Add an event with a reason, unless the agent's last event of this kind gave the same one. Returns whether it was added."""
        return bool(self._keyspace.run("emit_once", job_id, kind, agent_id, why))

    def show_activity(self, claim: Claim, activity: str) -> bool:
        """Set a running agent's activity. Returns whether anyone is watching."""
        return self._tell("show_activity", claim.agent_id, claim.generation, clean_text(activity))

    def show_progress(self, claim: Claim, line: str) -> bool:
        """Report the progress of a running agent's call. Returns whether the claim still holds the agent."""
        return self._tell("show_progress", claim.agent_id, claim.generation, clean_text(line))

    def show_tokens(self, claim: Claim, entry: int, pieces: Sequence[Piece]) -> bool:
        """Pass on a model's words, which will be journal entry `entry`, if anyone is watching. Returns whether anyone is."""
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

    def begin_summary(self, agent_id: str, length: int, interval: float, estimate: Charge) -> bool:
        """Reserve a summary's estimated use if one is due and the budget has plenty. Returns whether it did.

        The job is charged for it if the summary dies with its process. Raises `redis.RedisError`.
        """
        given = (agent_id, length, interval, estimate.usage.total_tokens, round(estimate.cost_usd * NANO))
        return bool(self._keyspace.run_now("begin_summary", *given, _encode(estimate)))

    def show_summary(self, agent_id: str, sort: str, text: str, charge: Charge) -> None:
        """Publish a summary, empty if the call failed, and settle its use. Raises `redis.RedisError`."""
        self._keyspace.run_now("show_summary", agent_id, sort, clean_text(text), _encode(charge))


def _encode(charge: Charge) -> str:
    return json.dumps({**charge.counters().changed(), "model": charge.model or "unknown"})
