"""The ground of the store: one client, one prefix, the atomic steps, and the check that every step's answer begins with."""

from __future__ import annotations

import copy
import json
from typing import Any, Self

import redis

from swarm.core.errors import AgentCancelled, NotOwner
from swarm.store.connection import SOCKET_TIMEOUT_SECONDS
from swarm.store.library import STEPS, Library
from swarm.store.outage import Outage, Patient
from swarm.store.prefixes import Prefixes
from swarm.store.values import Claim, Signals


class Keyspace:
    """One swarm's keys in one Redis."""

    def __init__(self, client: redis.Redis, prefix: str = "swarm") -> None:
        # The stubs do not know that `decode_responses` makes every answer text.
        self.client: Any = client
        self.hasty: Any = client
        """The client that never waits, also of a swarm that outlasts outages."""
        self.prefix = prefix
        self._prefixes = Prefixes()
        # Read now, so that processes that are forked share it.
        STEPS.name  # noqa: B018

    def outlasting(self, outage: Outage) -> Self:
        """The same, but every command waits until Redis can be had, for as long as `outage` lets it."""
        patient = copy.copy(self)
        patient.client = Patient(self.hasty, outage)
        return patient

    def key(self, *parts: str) -> str:
        """A key under this swarm's prefix."""
        return ":".join((self.prefix, *parts))

    def now(self) -> float:
        """The server's clock, Unix seconds."""
        seconds, micro = self.client.time()
        return float(seconds) + float(micro) / 1e6

    def emit(self, job_id: str, kind: str, agent_id: str, **fields: str) -> None:
        """Add an event that no other step makes: something for people to see, which decides nothing."""
        self.run("emit_event", job_id, kind, agent_id, *(part for field in fields.items() for part in field))

    def emit_once(self, job_id: str, kind: str, agent_id: str, *, why: str) -> bool:
        """The same with a reason, unless the agent's last event of this kind gave the same one; whether it was news."""
        return bool(self.run("emit_once", job_id, kind, agent_id, why))

    def wait_entries(self, kind: str, owner: str, after: str, seconds: float) -> list[tuple[str, dict[str, str]]]:
        """The first entries of a stream after that one; if there are none, they are waited for for so long, at most some seconds."""
        # 0 would be for ever, and even one millisecond lasts until the server's next tick, up to 100 of them.
        block = max(1, int(min(seconds, SOCKET_TIMEOUT_SECONDS / 2) * 1000)) if seconds > 0 else None
        found = self.client.xread({self.key(kind, owner): after}, count=500, block=block)
        return [(entry_id, dict(fields)) for _, entries in found or () for entry_id, fields in entries]

    def run(self, step: str, *arguments: str | int | float, library: Library = STEPS) -> Any:
        """Run one of the atomic steps, the swarm's own or a capability's.

        Raises `NotOwner` if it was in the name of an agent by a segment that does not own it any more.
        """
        answer = library.run(self.client, step, self.prefix, *arguments)
        match answer:
            case ["refused", "stale", about]:
                told = json.loads(about)
                raise NotOwner(told["agent"], told["generation"])
        return answer

    def _effect(self, answer: list[Any], claim: Claim) -> Signals:
        self._check(answer, claim)
        # A repeated step has no effects left to carry out but what the outbox holds.
        return Signals(*answer[1:])

    def _check(self, answer: list[Any], claim: Claim) -> None:
        match answer[0]:
            case "cancelled":
                raise AgentCancelled(claim.agent_id)
            case "stale":
                raise NotOwner(claim.agent_id, claim.generation)
