"""Leases on agents, and finding what fell: agents of dead workers, due timers, lost messages.

Guarantees: one worker sweeps at a time; whatever one of them leaves undone when it dies, the next sweep does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from swarm.store.keyspace import Keyspace
from swarm.store.values import Rescue, SweepTurn

_GRACE_SECONDS = 8.0
"""After an outage: a connection that hangs is noticed, made anew, and the leases of its worker renewed."""


def longest_gap(seconds: float, lease_seconds: float) -> float:
    """How long ago a sweep may have begun, where there is one every `seconds`, before Redis counts as having been away since."""
    return max(lease_seconds / 2, 3 * seconds)


class LeaseStore:
    """The leases that workers hold on agents."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def renew(self, worker: str, agent_ids: Sequence[str], lease_seconds: float) -> list[str]:
        """Prolong leases; returns the agents this worker must stop."""
        if not agent_ids:
            return []
        return list(self._keyspace.run("renew", worker, lease_seconds, *agent_ids))

    def busy(self) -> dict[str, int]:
        """How many agents each worker runs now."""
        return dict(Counter(worker for _, worker in self._held()))

    def held_by(self, worker: str) -> list[str]:
        """The agents a worker holds a lease on."""
        return [agent_id for agent_id, holder in self._held() if holder == worker]

    def _held(self) -> list[tuple[str, str]]:
        """The agents with a lease, each with the worker that holds it."""
        leased = list(self._keyspace.client.zrange(self._keyspace.key("leases"), 0, -1))
        records = self._keyspace.fetch("agent", leased, ["worker"])
        return [
            (agent_id, record["worker"]) for agent_id, record in zip(leased, records, strict=True) if record["worker"]
        ]

    def called(self) -> list[str]:
        """The agents that were sent for and have not been claimed."""
        return list(self._keyspace.client.zrange(self._keyspace.key("ready"), 0, -1))

    def may_have_lost(self, age_seconds: float) -> bool:
        """Whether anybody was sent for so long ago and has not been claimed."""
        return bool(
            self._keyspace.client.zcount(self._keyspace.key("ready"), "-inf", self._keyspace.now() - age_seconds)
        )

    def begin_sweep(self, worker: str, seconds: float, lease_seconds: float) -> SweepTurn:
        """Whether this worker is the one to look for what fell; nobody else is then for so long, or until a lease runs out.

        After an outage, in which no lease could be renewed, it may find none that has run out before its worker could renew it.
        """
        gap = longest_gap(seconds, lease_seconds)
        mine, next_end = self._keyspace.run("begin_sweep", worker, seconds, gap, min(lease_seconds, _GRACE_SECONDS))
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
        answer = self._keyspace.run(
            "rescue",
            *(max_deaths, outbox_age_seconds, batch, messages, "" if begun_within is None else begun_within),
            *(part for pair in dead for part in pair),
        )
        return Rescue(publish=answer[0], kill=answer[1], rescued=answer[2], quarantined=answer[3])
