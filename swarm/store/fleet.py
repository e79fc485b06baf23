"""The fleet: the workers, their capabilities, drained workers, and agents that wait for special workers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from swarm.agent.needs import Has
from swarm.core.errors import RedisFull
from swarm.store.keyspace import Keyspace
from swarm.store.values import Signals


class FleetStore:
    """The workers of a swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def workers(self) -> dict[str, str]:
        """The capabilities of each live worker, as JSON."""
        found = iter(self._keyspace.run("workers"))
        return dict(zip(found, found, strict=True))

    def staff(self, worker: str, slots: int, seconds: float) -> Signals:
        """Announce how many agents a worker can run now; a worker silent for `seconds` is forgotten."""
        return Signals(*self._keyspace.run("staff", worker, slots, seconds))

    def staffed(self) -> list[str]:
        """The workers that take agents now."""
        return list(self._keyspace.client.hkeys(self._keyspace.key("slots")))

    def announce(self, worker: str, has: Has, seconds: float) -> float:
        """Announce a worker's capabilities, valid for `seconds`; returns Redis' clock in Unix seconds."""
        return float(self._keyspace.run("announce", worker, has.model_dump_json(), " ".join(has.offers), seconds))

    def drain(self, target: str, wanted: bool = True) -> None:
        """Stop the workers of a host, or the worker of that name, from taking agents; with `wanted` false, let them take agents again."""
        change = self._keyspace.client.sadd if wanted else self._keyspace.client.srem
        change(self._keyspace.key("drained"), target)

    def drained(self) -> set[str]:
        """The hosts and workers that must take no agents."""
        return set(self._keyspace.client.smembers(self._keyspace.key("drained")))

    def is_drained(self, *names: str) -> bool:
        """Whether one of these names is drained."""
        return any(self._keyspace.client.smismember(self._keyspace.key("drained"), list(names)))

    def keep_queue(self, name: str, seconds: float) -> None:
        """Have a queue's messages expire after `seconds`."""
        self._keyspace.client.expire(name, round(seconds))

    def queue_length(self, name: str) -> int:
        """The number of messages in a queue."""
        return int(self._keyspace.client.llen(name))

    def queued(self, queue: str) -> list[Any]:
        """The messages of a queue and of all workers' own queues, as the broker wrote them."""
        names = [queue, *(f"{queue}.{worker}" for worker in self.staffed())]
        return [raw for entries in self._keyspace.each("lrange", names, 0, -1) for raw in entries]

    def full(self) -> str:
        """Why nothing new starts: Redis is nearly full; empty if it has room."""
        lack = self._keyspace.run("room")
        return str(RedisFull(*lack)) if lack else ""

    def hub_mark(self, *, make: bool = False) -> str:
        """The mark by which a hub knows this Redis; empty if there is none. With `make`, make a missing one."""
        if make:
            self._keyspace.client.set(self._keyspace.key("hub"), secrets.token_hex(16), nx=True)
        return self._keyspace.client.get(self._keyspace.key("hub")) or ""

    def set_aside(self, agent_id: str, seconds: float) -> Signals:
        """Leave a queued agent to workers that can run it, and call others instead."""
        return Signals(*self._keyspace.run("set_aside", agent_id, seconds))

    def waiting(self, in_line: int) -> dict[str, list[str]]:
        """The needs, as JSON, of queued agents in each open job: those that are called or set aside, and the first `in_line` in line."""
        keyspace, found = self._keyspace, dict[str, list[str]]()
        jobs = keyspace.client.zrevrange(keyspace.key("jobs", "running"), 0, -1)
        called = keyspace.each("smembers", (keyspace.key("job", job, "called") for job in jobs))
        lines = keyspace.each("zrange", (keyspace.key("job", job, "line") for job in jobs), 0, in_line - 1)
        aside = keyspace.client.zrange(keyspace.key("aside"), 0, -1)
        agents = list(dict.fromkeys(agent for ids in (*called, *lines, aside) for agent in ids))
        for record in keyspace.fetch("agent", agents, ["job", "state", "needs"]):
            if record["state"] == "queued" and record["job"] and record["needs"]:
                found.setdefault(record["job"], []).append(record["needs"])
        return found

    def aside_news(self) -> int:
        """A number that grows whenever an agent is set aside; 0 if none ever was."""
        return int(self._keyspace.client.get(self._keyspace.key("aside", "news")) or 0)

    def wait_bell(self, worker: str, seconds: float) -> None:
        """Wait up to `seconds` until an agent is set aside that this worker can run."""
        self._keyspace.client.blpop([self._keyspace.key("bell", worker)], timeout=seconds)

    def aside(self, first: int, count: int) -> list[str]:
        """Some agents that were set aside, from index `first` on."""
        return list(self._keyspace.client.zrange(self._keyspace.key("aside"), first, first + count - 1))

    def take_aside(self, agent_ids: Sequence[str]) -> tuple[Signals, list[str]]:
        """Take some agents that were set aside; returns those whose message this worker must send to itself."""
        publish, taken = self._keyspace.run("take_aside", *agent_ids)
        return Signals(publish), taken

    def send_near(self, agent_ids: Sequence[str], seconds: float) -> dict[str, str]:
        """Reserve agents for `seconds` for a worker on their files' host: agent → that worker. Others are left out."""
        workers = self._keyspace.run("send_near", seconds, *agent_ids) if agent_ids else []
        return {agent_id: worker for agent_id, worker in zip(agent_ids, workers, strict=True) if worker}

    def take_late(self, most: int) -> list[str]:
        """Take some agents that their host's workers left too long, for this worker to send to itself."""
        return list(self._keyspace.run("take_late", most))
