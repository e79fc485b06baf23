"""What every part of the store shares: one client, one prefix, the atomic steps, and the check that every step's answer begins with."""

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
        """The client that never waits, also of a swarm that outlasts outages."""
        self.prefix = prefix
        # Read now, so that processes that are forked share it.
        STEPS.name  # noqa: B018

    def outlasting(self, outage: Outage) -> Self:
        """The same, but every command waits until Redis can be had, for as long as `outage` lets it."""
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

        Raises `NotOwner` if it was in the name of an agent by a segment that does not own it any more.
        """
        answer = library.run(self.client, step, self.prefix, *arguments)
        match answer:
            case ["refused", "stale", about]:
                told = json.loads(about)
                raise NotOwner(told["agent"], told["generation"])
        return answer

    def run_now(self, step: str, *arguments: str | int | float) -> Any:
        """Run one of the swarm's own steps without waiting for a Redis that is away. Raises `redis.RedisError`."""
        return STEPS.run(self.no_retry, step, self.prefix, *arguments)

    def fetch(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str | None]]:
        """Some fields of several hashes of a kind, in one round trip."""
        found = self.each("hmget", (self.key(kind, one) for one in ids), names)
        return [dict(zip(names, values, strict=True)) for values in found]

    def each(self, command: str, keys: Iterable[str], *arguments: Any) -> list[Any]:
        """The answers of one command for each of these keys, in one round trip."""
        pipeline = self.client.pipeline(transaction=False)
        for key in keys:
            getattr(pipeline, command)(key, *arguments)
        return list(pipeline.execute())


def check_claim(answer: list[Any], claim: Claim) -> None:
    """Raise `AgentCancelled` or `NotOwner` if a step answers that the claim holds no more."""
    match answer[0]:
        case "cancelled":
            raise AgentCancelled(claim.agent_id)
        case "stale":
            raise NotOwner(claim.agent_id, claim.generation)


def effect_of(answer: list[Any], claim: Claim) -> Signals:
    """The signals that follow a step's code. Raises as `check_claim`."""
    check_claim(answer, claim)
    # A repeated step has no effects left to carry out but what the outbox holds.
    return Signals(*answer[1:])


def no_agent(agent_id: str) -> UnknownAgent:
    """The error for an agent that does not exist."""
    return UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")


def no_job(job_id: str) -> UnknownAgent:
    """The error for a job that does not exist."""
    return UnknownAgent(f"no job {job_id}; `swarm jobs` lists those that exist")
