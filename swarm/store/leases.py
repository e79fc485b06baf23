"""Leases on agents, and the sweep for agents of dead workers, due timers and lost messages.

Guarantees: one worker sweeps at a time; the next sweep completes an unfinished one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from swarm.store.keyspace import Keyspace
from swarm.store.values import Rescue, Signals, SweepTurn

_GRACE_SECONDS = 8.0
"""Time after an outage to notice a hung connection, reconnect, and renew the leases of its worker."""


def longest_gap(seconds: float, lease_seconds: float) -> float:
    """The longest time since the last sweep, with one every `seconds`, before Redis counts as having been away."""
    return max(lease_seconds / 2, 3 * seconds)


class LeaseStore:
    """The leases that workers hold on agents."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def renew(self, worker: str, agent_ids: Sequence[str], lease_seconds: float) -> list[str]:
        """Renew leases; returns the agents this worker must stop."""
        if not agent_ids:
            return []
        return list(self._keyspace.run("renew", worker, lease_seconds, *agent_ids))

    def busy(self) -> dict[str, int]:
        """How many agents each worker runs now."""
        return dict(Counter(worker for _, worker in self._held()))

    def held_by(self, worker: str) -> list[str]:
        """The agents leased to a worker."""
        return [agent_id for agent_id, holder in self._held() if holder == worker]

    def _held(self) -> list[tuple[str, str]]:
        """Each leased agent with its worker."""
        leased = list(self._keyspace.client.zrange(self._keyspace.key("leases"), 0, -1))
        records = self._keyspace.fetch("agent", leased, ["worker"])
        return [
            (agent_id, record["worker"]) for agent_id, record in zip(leased, records, strict=True) if record["worker"]
        ]

    def called(self) -> list[str]:
        """The agents that were called and not yet claimed."""
        return list(self._keyspace.client.zrange(self._keyspace.key("ready"), 0, -1))

    def may_have_lost(self, age_seconds: float) -> bool:
        """Whether an agent was called that long ago and is still unclaimed."""
        return bool(
            self._keyspace.client.zcount(self._keyspace.key("ready"), "-inf", self._keyspace.now() - age_seconds)
        )

    def begin_sweep(self, worker: str, seconds: float, lease_seconds: float, full_share: float = 1.0) -> SweepTurn:
        """Ask to sweep: at most one worker may for `seconds`, or until a lease expires.

        After an outage, in which no lease could be renewed, workers first get time to renew theirs. With `full_share` of its memory used,
        Redis counts as full.
        """
        gap = longest_gap(seconds, lease_seconds)
        grace = min(lease_seconds, _GRACE_SECONDS)
        publish, mine, next_end = self._keyspace.run("begin_sweep", worker, seconds, gap, grace, full_share)
        return SweepTurn(bool(mine), float(next_end) if next_end else None, Signals(publish))

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
        """Requeue lost agents. `dead` are (agent, worker) whose process is known to be gone; `batch=0` looks only at those.

        `queued` are the agents with queued messages; messages of others are lost once older than `outbox_age_seconds`. Leases are checked
        only if the sweep began within `begun_within` seconds, because Redis may have been away since.
        """
        messages = json.dumps(list(queued))
        answer = self._keyspace.run(
            "rescue",
            *(max_deaths, outbox_age_seconds, batch, messages, "" if begun_within is None else begun_within),
            *(part for pair in dead for part in pair),
        )
        return Rescue(publish=answer[0], kill=answer[1], rescued=answer[2], quarantined=answer[3])
