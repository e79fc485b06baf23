"""The common base of the store: one client, one prefix, the atomic steps, and the check of a step's answer."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any, Self

import redis

from swarm.core.errors import AgentCancelled, NotOwner, UnknownAgent
from swarm.store.library import STEPS, Library
from swarm.store.outage import Outage, RetryingClient
from swarm.store.values import Claim, Signals


class Keyspace:
    """One swarm's keys in one Redis."""

    def __init__(self, client: redis.Redis, prefix: str = "swarm") -> None:
        # The stubs do not know that `decode_responses` makes every answer text.
        self.client: Any = client
        self.no_retry: Any = client
        """The client that never waits, even in a swarm that outlasts outages."""
        self.prefix = prefix
        # Read now, so that forked processes share it.
        STEPS.name  # noqa: B018

    def outlasting(self, outage: Outage) -> Self:
        """Copy the keyspace, with commands that wait for Redis as long as `outage` allows."""
        batch = copy.copy(self)
        batch.client = RetryingClient(self.no_retry, outage)
        return batch

    def key(self, *parts: str) -> str:
        """A key under this swarm's prefix."""
        return ":".join((self.prefix, *parts))

    def now(self) -> float:
        """The server's clock, Unix seconds."""
        seconds, micro = self.client.time()
        return float(seconds) + float(micro) / 1e6

    def run(self, step: str, *arguments: str | int | float, library: Library = STEPS) -> Any:
        """Run one of the atomic steps, the swarm's own or a capability's.

        Raises `NotOwner` if the step acts for an agent that the calling segment no longer owns.
        """
        answer = library.run(self.client, step, self.prefix, *arguments)
        match answer:
            case ["refused", "stale", about]:
                told = json.loads(about)
                raise NotOwner(told["agent"], told["generation"])
        return answer

    def run_now(self, step: str, *arguments: str | int | float) -> Any:
        """Run one of the swarm's own steps without waiting for an unavailable Redis. Raises `redis.RedisError`."""
        return STEPS.run(self.no_retry, step, self.prefix, *arguments)

    def fetch(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str | None]]:
        """Some fields of several hashes of one kind, in one round trip."""
        found = self.each("hmget", (self.key(kind, one) for one in ids), names)
        return [dict(zip(names, values, strict=True)) for values in found]

    def each(self, command: str, keys: Iterable[str], *arguments: Any) -> list[Any]:
        """The answers of one command for each key, in one round trip."""
        pipeline = self.client.pipeline(transaction=False)
        for key in keys:
            getattr(pipeline, command)(key, *arguments)
        return list(pipeline.execute())


def check_claim(answer: list[Any], claim: Claim) -> None:
    """Raise `AgentCancelled` or `NotOwner` if a step answers that the claim no longer holds."""
    match answer[0]:
        case "cancelled":
            raise AgentCancelled(claim.agent_id)
        case "stale":
            raise NotOwner(claim.agent_id, claim.generation)


def effect_of(answer: list[Any], claim: Claim) -> Signals:
    """The signals after a step's code. Raises as `check_claim`."""
    check_claim(answer, claim)
    # The only effects left of a repeated step are in the outbox.
    return Signals(*answer[1:])


def no_agent(agent_id: str) -> UnknownAgent:
    """The error for a missing agent."""
    return UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")


def no_job(job_id: str) -> UnknownAgent:
    """The error for a missing job."""
    return UnknownAgent(f"no job {job_id}; `swarm jobs` lists those that exist")
