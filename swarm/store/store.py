"""The swarm's state in one Redis, as parts that share one client and one prefix."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Self

import redis

from swarm.objects.port import Objects
from swarm.store.agents import AgentStore
from swarm.store.archive import Archive
from swarm.store.connection import explained, ping_or_raise
from swarm.store.events import EventStore
from swarm.store.fleet import FleetStore
from swarm.store.jobs import JobStore
from swarm.store.journals import JournalStore
from swarm.store.keyspace import Keyspace
from swarm.store.leases import LeaseStore
from swarm.store.mail import MailStore
from swarm.store.objects import JobObjects
from swarm.store.outage import Outage
from swarm.store.outputs import OutputStore
from swarm.store.prefixes import Prefixes
from swarm.store.questions import Questions
from swarm.store.rates import RateStore
from swarm.store.streams import StreamStore


class Store:
    """The swarm's state in one Redis. A capability's own store takes its `keyspace`, which nothing else uses.

    A part is built when it is first used: an agent's segment uses half of them.
    """

    jobs = cached_property(lambda store: JobStore(store.keyspace, store.archive.recall))
    agents = cached_property(lambda store: AgentStore(store.keyspace, store.archive.recall_for))
    archive = cached_property(lambda store: Archive(store.keyspace, lambda: store.objects))
    journals = cached_property(
        lambda store: JournalStore(store.keyspace, store.prefixes, lambda digest: store.jobs.document(digest))
    )
    outputs = cached_property(lambda store: OutputStore(store.keyspace, lambda: store.objects))
    mail = cached_property(lambda store: MailStore(store.keyspace))
    questions = cached_property(lambda store: Questions(store.keyspace, store.archive.recall_for))
    events = cached_property(lambda store: EventStore(store.keyspace))
    streams = cached_property(lambda store: StreamStore(store.keyspace))
    rates = cached_property(lambda store: RateStore(store.keyspace))
    leases = cached_property(lambda store: LeaseStore(store.keyspace))
    fleet = cached_property(lambda store: FleetStore(store.keyspace))

    def __init__(
        self, client: redis.Redis, prefix: str = "swarm", open_objects: Callable[[], Objects | None] = lambda: None
    ) -> None:
        """`open_objects` opens the objects that all workers reach; None if there are none."""
        self._share(Keyspace(client, prefix), Prefixes(), open_objects)

    def _share(self, keyspace: Keyspace, prefixes: Prefixes, open_objects: Callable[[], Objects | None]) -> None:
        self.keyspace, self.prefixes, self.open_objects = keyspace, prefixes, open_objects

    def outage(self, tell: Callable[[str], None], who: str) -> Outage:
        """The outages of one of this client's tasks; see `Outage`."""
        client = self.keyspace.no_retry
        return Outage(tell, who=who, has_answered=lambda: getattr(client, "answered", False))

    def outlasting(self, outage: Outage) -> Self:
        """A store whose commands wait until Redis is back, for as long as `outage` allows."""
        waiting = type(self).__new__(type(self))
        waiting._share(self.keyspace.outlasting(outage), self.prefixes, self.open_objects)
        return waiting

    @cached_property
    def objects(self) -> JobObjects | None:
        """The objects that all workers reach; None if there are none. Not to be used before a process forks."""
        objects = self.open_objects()
        return None if objects is None else JobObjects(self.keyspace, objects)

    def now(self) -> float:
        """The server's time, in seconds since the epoch."""
        return self.keyspace.now()

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
