"""Measure the bytes of a swarm: by kind, by job, by agent."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import get_args

from pydantic import BaseModel

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
    """Outputs outside of Redis, and an archived job."""
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


class Holding(BaseModel):
    """A job or an agent with its bytes by kind, as `Held` describes them."""

    id: str
    name: str
    """A job's title, an agent's name."""
    state: str
    journals: int
    mail: int
    outputs: int
    objects: int
    shared: int
    records: int
    total: int


class RedisMemory(BaseModel):
    """The memory of Redis, in bytes."""

    used: int
    most: int
    """0: unlimited."""
    full: str
    """The effect of nearly used up memory; empty while there is room."""


class StoredBytes(BaseModel):
    """The bytes that a swarm or a job stores."""

    redis: RedisMemory | None = None
    """Given for a whole swarm."""
    held: dict[str, int]
    """Bytes by kind; for a whole swarm also `index`, the lists of jobs, events and workers, and `other`, the rest of Redis."""
    jobs: list[Holding] | None = None
    """The largest jobs of the swarm."""
    agents: list[Holding] | None = None
    """The largest agents of the job."""


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

    def measure(self, job_id: str | None, limit: int, full: str) -> StoredBytes:
        """Measure the swarm and its largest jobs, or a job and its largest agents; `full` is for `RedisMemory`. Raises `UnknownAgent`."""
        if job_id is not None:
            return StoredBytes(held=asdict(self.job(job_id).held), agents=_largest(self.agents(job_id), limit))
        whole = Held()

        def add_up() -> Iterator[Holder]:
            nonlocal whole
            for found in self.jobs():
                whole += found.held
                yield found

        jobs = _largest(add_up(), limit)
        (used, most), index = self.redis(), self.index()
        held = {**asdict(whole), "index": index, "other": max(0, used - whole.in_redis - index)}
        return StoredBytes(redis=RedisMemory(used=used, most=most, full=full), held=held, jobs=jobs)

    def _measure(self, job_ids: Sequence[str]) -> Iterator[Holder]:
        for job_id, title, state, journals, mail, outputs, objects, *rest in self._keyspace.run(
            "measure_jobs", *job_ids
        ):
            yield Holder(job_id, title, state, Held(journals, mail, outputs, objects, *rest))


def _largest(found: Iterable[Holder], limit: int) -> list[Holding]:
    largest = heapq.nlargest(limit, found, key=lambda one: one.held.total)
    return [
        Holding(id=one.id, name=one.name, state=one.state, **asdict(one.held), total=one.held.total) for one in largest
    ]
