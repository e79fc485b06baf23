"""Measure the bytes of a swarm: by kind, by job, by agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from swarm.core.records import ListedState
from swarm.store.keyspace import Keyspace, no_job

_AT_ONCE = 50
_INDEX = (
    *("jobs", *(f"jobs:{state}" for state in get_args(ListedState))),
    *("expiring", "holders", "orphans", "loose", "freeable", "unfinished", "feed", "ends", "totals", "workers"),
    *("leases", "timers", "deadlines"),
)
"""Keys of all jobs together."""
_COUNTED = {"journals": "journal_bytes", "mail": "mail_bytes", "outputs": "output_bytes"}
"""Fields that count the bytes of an agent."""


@dataclass(frozen=True)
class Held:
    """The bytes of a job, of an agent, or of a whole swarm."""

    journals: int = 0
    mail: int = 0
    outputs: int = 0
    """Outputs in Redis."""
    objects: int = 0
    """Outputs outside of Redis."""
    shared: int = 0
    """Board, pad and pages; of many pages an estimate."""
    records: int = 0
    """Everything else; of many agents' records an estimate."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.in_redis + self.objects

    @property
    def in_redis(self) -> int:
        """The part that is in Redis."""
        return self.journals + self.mail + self.outputs + self.shared + self.records

    def __add__(self, other: Held) -> Held:
        return Held(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Holder:
    """A job or an agent with its bytes."""

    id: str
    name: str
    """A job's title, an agent's name."""
    state: str
    held: Held


class UsageStore:
    """Measures the swarm, each job at constant cost."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def jobs(self) -> Iterator[Holder]:
        """Yield each job."""
        job_ids = self._keyspace.client.zrange(self._keyspace.key("jobs"), 0, -1)
        for first in range(0, len(job_ids), _AT_ONCE):
            yield from self._measure(job_ids[first : first + _AT_ONCE])

    def job(self, job_id: str) -> Holder:
        """Measure one job. Raises `UnknownAgent`."""
        for found in self._measure([job_id]):
            return found
        raise no_job(job_id)

    def agents(self, job_id: str) -> list[Holder]:
        """Measure each agent of a job."""
        agent_ids = self._keyspace.client.zrange(self._keyspace.key("job", job_id, "agents"), 0, -1)
        found = self._keyspace.fetch("agent", agent_ids, ["name", "state", *_COUNTED.values()])
        records = self._keyspace.each("memory_usage", (self._keyspace.key("agent", one) for one in agent_ids))
        bodies = self._keyspace.each("hvals", (self._keyspace.key("bodies", one) for one in agent_ids))
        agents = []
        for agent_id, record, size, large in zip(agent_ids, found, records, bodies, strict=True):
            counted = {kind: int(record[name] or 0) for kind, name in _COUNTED.items()}
            objects = sum(int(body.split(" ")[0]) for body in large)
            held = Held(**counted, objects=objects, records=size or 0) + Held(outputs=-objects)
            agents.append(Holder(agent_id, record["name"] or "", record["state"] or "", held))
        return agents

    def index(self) -> int:
        """Measure the lists of jobs, events and workers."""
        return sum(size or 0 for size in self._keyspace.each("memory_usage", map(self._keyspace.key, _INDEX)))

    def redis(self) -> tuple[int, int]:
        """The memory that Redis uses, and its limit in bytes; 0: none."""
        told = self._keyspace.client.info("memory")
        return int(told["used_memory"]), int(told["maxmemory"])

    def _measure(self, job_ids: Sequence[str]) -> Iterator[Holder]:
        for job_id, title, state, journals, mail, outputs, objects, *rest in self._keyspace.run(
            "measure_jobs", *job_ids
        ):
            yield Holder(job_id, title, state, Held(journals, mail, outputs - objects, objects, *rest))
