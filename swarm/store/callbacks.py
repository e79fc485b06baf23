"""Sequels: what is published, on a broker of another application, when a job ends.

Guarantees: the step that ends the job writes down that its sequel is due; it is published at least once, by any worker that knows
the broker, under an id that is derived from the job; a job that goes on after its end has no second one. One with `confirmed` is
published again, ever more rarely, until its receiver has settled it, so a message that was lost there is no lost step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from swarm.store.keyspace import Keyspace

MAX_CALLBACK_BYTES = 512 * 1024
_AT_ONCE = 50
_SILENT_SECONDS = 30.0
"""Workers say every few seconds which brokers they know."""
NAME_BROKER = "name it with its URL in a worker's SWARM_BROKERS"


def explain_stranded(broker: str, jobs: int) -> str:
    """What people are told of sequels that nobody can publish."""
    return f"what follows {jobs} ended job{'s'[: jobs != 1]} cannot be published: no worker knows the broker {broker}"


class Callback(BaseModel):
    """What is to be published when a job ends."""

    model_config = ConfigDict(frozen=True)

    broker: str
    """The name by which workers know it."""
    signature: dict[str, Any]
    """A Celery signature as JSON."""
    confirmed: bool = False
    """Its receiver settles it, and it is not given the job's end but looks for itself."""


class DueCallback(NamedTuple):
    """A sequel to be published now."""

    job_id: str
    callback: Callback


class Callbacks:
    """The sequels of all jobs."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def know(self, brokers: Iterable[str]) -> None:
        """Say that a worker publishes on these brokers: jobs that name one of them are taken from then on, for a week."""
        self._keyspace.run("know_brokers", json.dumps(list(brokers)))

    def stranded(self) -> dict[str, int]:
        """Brokers that no worker knows any more, by name, with how many jobs that have ended are still to be told there."""
        found = iter(self._keyspace.run("stranded_callbacks", _SILENT_SECONDS))
        return {broker: int(jobs) for broker, jobs in zip(found, found, strict=True)}

    def known(self) -> list[str]:
        """The brokers that workers know, by name."""
        return sorted(self._keyspace.client.zrange(self._keyspace.key("brokers"), 0, -1))

    def due(self, broker: str) -> list[DueCallback]:
        """Take what is to be published on a broker now; what is not settled then is due again later."""
        found = iter(self._keyspace.run("due_callbacks", broker, _AT_ONCE))
        return [
            DueCallback(job_id, Callback.model_validate_json(document))
            for job_id, document in zip(found, found, strict=True)
        ]

    def settle(self, job_id: str) -> None:
        """The job's sequel need not be published any more."""
        self._keyspace.run("settle_callback", job_id, "")

    def put_off(self, job_id: str, seconds: float) -> None:
        """The job's sequel could not be published; it is due again after so long."""
        self._keyspace.run("settle_callback", job_id, seconds)
