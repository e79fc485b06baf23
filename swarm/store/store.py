"""The swarm's state in one Redis, as parts that share one client and one prefix."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import Any, Self

import redis

from swarm.store.agents import AgentStore
from swarm.store.connection import explained, ping_or_raise
from swarm.store.events import EventStore
from swarm.store.fleet import FleetStore
from swarm.store.jobs import JobStore
from swarm.store.journals import JournalStore
from swarm.store.keyspace import Keyspace
from swarm.store.leases import LeaseStore
from swarm.store.mail import MailStore
from swarm.store.outage import Outage
from swarm.store.prefixes import Prefixes
from swarm.store.questions import Questions
from swarm.store.rates import RateStore
from swarm.store.streams import StreamStore


class Store:
    """The swarm's state in one Redis. Only a capability's own store uses its `keyspace` directly."""

    def __init__(self, client: redis.Redis, prefix: str = "swarm") -> None:
        self._prefixes = Prefixes()
        self._open(Keyspace(client, prefix))

    def _open(self, keyspace: Keyspace) -> None:
        self.keyspace = keyspace
        self.now = keyspace.now
        self.jobs = JobStore(keyspace)
        self.agents = AgentStore(keyspace)
        self.journals = JournalStore(keyspace, self._prefixes, self.jobs.document)
        self.mail = MailStore(keyspace)
        self.questions = Questions(keyspace)
        self.events = EventStore(keyspace)
        self.streams = StreamStore(keyspace)
        self.rates = RateStore(keyspace)
        self.leases = LeaseStore(keyspace)
        self.fleet = FleetStore(keyspace)

    def outlasting(self, outage: Outage) -> Self:
        """Copy the store, with commands that wait for Redis as long as `outage` allows."""
        batch = copy.copy(self)
        batch._open(self.keyspace.outlasting(outage))
        return batch

    def ping(self) -> None:
        """Return if Redis answers. Raises `RedisUnavailable`."""
        ping_or_raise(self.keyspace.no_retry)

    def explained(self) -> AbstractContextManager[None]:
        """Convert errors from a Redis that does not answer into `RedisUnavailable`."""
        return explained(self.keyspace.no_retry)

    def close(self) -> None:
        """Close the connections."""
        self.keyspace.no_retry.close()

    @property
    def connections(self) -> Any:
        """The connection pool, for a process that must close all connections."""
        return self.keyspace.no_retry.connection_pool
