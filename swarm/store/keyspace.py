"""The ground of the store: one client, one prefix, the atomic steps, and the check that every step's answer begins with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from swarm.errors import AgentCancelled, NotOwner
from swarm.store.library import STEPS, Library
from swarm.store.prefixes import Prefixes
from swarm.store.values import Claim, Effect


class Keyspace:
    """One swarm's keys in one Redis."""

    def __init__(self, client: redis.Redis, prefix: str = "swarm") -> None:
        # The stubs do not know that `decode_responses` makes every answer text.
        self.client: Any = client
        self.prefix = prefix
        self._prefixes = Prefixes()

    def key(self, *parts: str) -> str:
        """A key under this swarm's prefix."""
        return ":".join((self.prefix, *parts))

    def now(self) -> float:
        """The server's clock, Unix seconds."""
        seconds, micro = self.client.time()
        return float(seconds) + float(micro) / 1e6

    def note(self, job_id: str, kind: str, agent_id: str, **fields: str) -> None:
        """Add an event that no step makes: something for people to see, which decides nothing."""
        entry = {"kind": kind, "agent": agent_id, **fields}
        self.client.xadd(self.key("events", job_id), entry, maxlen=20_000, approximate=True)

    def run(self, step: str, *arguments: str | int | float, library: Library = STEPS) -> Any:
        """Run one of the atomic steps, the swarm's own or a capability's."""
        return library.run(self.client, step, self.prefix, *arguments)

    def fields(self, agent_ids: Sequence[str], *names: str) -> list[list[str | None]]:
        """Some fields of several agents, in one round trip."""
        if not agent_ids:
            return []
        pipeline = self.client.pipeline(transaction=False)
        for agent_id in agent_ids:
            pipeline.hmget(self.key("agent", agent_id), *names)
        return list(pipeline.execute())

    def _effect(self, answer: list[Any], claim: Claim) -> Effect:
        self._check(answer, claim)
        # A repeated step has no effects left to carry out but what the outbox holds.
        return Effect(*answer[1:])

    def _check(self, answer: list[Any], claim: Claim) -> None:
        match answer[0]:
            case "cancelled":
                raise AgentCancelled(claim.agent_id)
            case "stale":
                raise NotOwner(claim.agent_id, claim.generation)
