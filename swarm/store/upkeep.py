"""What workers do for the swarm besides running agents: leases, finding what fell, and finishing ends of any size.

Guarantees: one worker sweeps at a time; whatever one of them leaves undone when it dies, the next sweep does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from swarm.agent.needs import Has
from swarm.store.mailboxes import Mailboxes
from swarm.store.values import Rescue, Signals, SweepTurn

_GRACE_SECONDS = 8.0
"""After an outage: a connection that hangs is noticed, made anew, and the leases of its worker renewed."""


def longest_gap(seconds: float, lease_seconds: float) -> float:
    """How long ago a sweep may have begun, where there is one every `seconds`, before Redis counts as having been away since."""
    return max(lease_seconds / 2, 3 * seconds)


class Upkeep(Mailboxes):
    """The part of a store that workers use on their own behalf."""

    def settle(self, job_id: str) -> tuple[bool, Signals]:
        """Go on with what an end has left to do in the job; returns whether anything still is."""
        left, publish, kill = self.run("settle", job_id)
        return bool(left), Signals(publish, kill)

    def unsettled(self) -> list[str]:
        """Some of the jobs in which an end has left something to do. Those that expired are forgotten on the way."""
        return list(self.run("unsettled"))

    def renew(self, worker: str, agent_ids: Sequence[str], lease_seconds: float) -> list[str]:
        """Prolong leases; returns the agents this worker must stop."""
        if not agent_ids:
            return []
        return list(self.run("renew", worker, lease_seconds, *agent_ids))

    def staff(self, worker: str, slots: int, seconds: float) -> Signals:
        """A worker can run so many agents now; who has not said so for `seconds` is forgotten."""
        return Signals(*self.run("staff", worker, slots, seconds))

    def may_have_lost(self, age_seconds: float) -> bool:
        """Whether anybody was sent for so long ago and has not been claimed."""
        return bool(self.client.zcount(self.key("ready"), "-inf", self.now() - age_seconds))

    def staffed(self) -> list[str]:
        """The workers that take agents now."""
        return list(self.client.hkeys(self.key("slots")))

    def called(self) -> list[str]:
        """The agents that were sent for and have not been claimed."""
        return list(self.client.zrange(self.key("ready"), 0, -1))

    def set_aside(self, agent_id: str, seconds: float) -> Signals:
        """Leave a queued agent to workers that can serve it, and call others instead."""
        return Signals(*self.run("set_aside", agent_id, seconds))

    def aside_news(self) -> int:
        """Grows whenever an agent is set aside; 0: there was none ever."""
        return int(self.client.get(self.key("aside", "news")) or 0)

    def wait_bell(self, worker: str, seconds: float) -> None:
        """Wait for so long, or until an agent is set aside that this worker can serve."""
        self.client.blpop([self.key("bell", worker)], timeout=seconds)

    def aside(self, first: int, count: int) -> list[str]:
        """Some of the agents that were set aside, those from the `first` on."""
        return list(self.client.zrange(self.key("aside"), first, first + count - 1))

    def take_aside(self, agent_ids: Sequence[str]) -> tuple[Signals, list[str]]:
        """Take some of them; returns those whose message this worker must send to itself."""
        publish, taken = self.run("take_aside", *agent_ids)
        return Signals(publish), taken

    def send_near(self, agent_ids: Sequence[str], seconds: float) -> dict[str, str]:
        """Of these agents, those that are left for so long to a worker on the host of their files, and which one."""
        workers = self.run("send_near", seconds, *agent_ids) if agent_ids else []
        return {agent_id: worker for agent_id, worker in zip(agent_ids, workers, strict=True) if worker}

    def take_late(self, most: int) -> list[str]:
        """Some of those that no worker there has taken in time, for this worker to send to itself."""
        return list(self.run("take_late", most))

    def announce(self, worker: str, has: Has, seconds: float) -> None:
        """Say what a worker has; it holds for so long."""
        self.run("announce", worker, has.model_dump_json(), " ".join(has.offers), seconds)

    def drain(self, target: str, wanted: bool = True) -> None:
        """Have the workers of a host, or the one of that name, take no agents, or take them again."""
        change = self.client.sadd if wanted else self.client.srem
        change(self.key("drained"), target)

    def drained(self) -> set[str]:
        """The hosts and workers that are to take no agents."""
        return set(self.client.smembers(self.key("drained")))

    def is_drained(self, *names: str) -> bool:
        """Whether one of these is to take no agents."""
        return any(self.client.smismember(self.key("drained"), list(names)))

    def begin_sweep(self, worker: str, seconds: float, lease_seconds: float) -> SweepTurn:
        """Whether this worker is the one to look for what fell; nobody else is then for so long, or until a lease runs out.

        After an outage, in which no lease could be renewed, it may find none that has run out before its worker could renew it.
        """
        gap = longest_gap(seconds, lease_seconds)
        mine, next_end = self.run("begin_sweep", worker, seconds, gap, min(lease_seconds, _GRACE_SECONDS))
        return SweepTurn(bool(mine), float(next_end) if next_end else None)

    def rescue(
        self,
        *,
        max_deaths: int,
        outbox_age_seconds: float,
        batch: int = 200,
        queued: Sequence[str] = (),
        begun_within: float | None = None,
        dead: Sequence[tuple[str, str]] = (),
    ) -> Rescue:
        """Put back what fell. `dead` are (agent, worker) whose process is known to be gone; `batch=0` looks at those only.

        `queued` are the agents whose messages are queued: those of others that are as old as `outbox_age_seconds` are lost.
        A sweep is for leases only if it was `begun_within` so many seconds: Redis may have been away since.
        """
        messages = json.dumps(list(queued))
        answer = self.run(
            "rescue",
            *(max_deaths, outbox_age_seconds, batch, messages, "" if begun_within is None else begun_within),
            *(part for pair in dead for part in pair),
        )
        return Rescue(publish=answer[0], kill=answer[1], rescued=answer[2], quarantined=answer[3])
