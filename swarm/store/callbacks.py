"""Callbacks: tasks of other applications that are published on their brokers when a job ends.

Guarantees: the step that ends the job records that its callback is due. Any worker that knows the broker publishes it, at least
once, under an id derived from the job. A job that continues after its end gets no second one. A `confirmed` callback is published
again, at growing intervals, until its receiver has settled it, so a lost message loses no step.
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
"""Silence after which no worker counts as knowing a broker; workers announce their brokers every few seconds."""
NAME_BROKER = "name it with its URL in a worker's SWARM_BROKERS"


def explain_stranded(broker: str, jobs: int) -> str:
    """Explain callbacks that no worker can publish."""
    return f"callbacks of {jobs} ended job{'s'[: jobs != 1]} cannot be published: no worker knows the broker {broker}"


class Callback(BaseModel):
    """A task to publish when a job ends."""

    model_config = ConfigDict(frozen=True)

    broker: str
    """The broker's name in the workers' settings."""
    signature: dict[str, Any]
    """A Celery signature as JSON."""
    places: dict[str, Any] = {}
    """Options of the application's broker that say where messages lie, beyond those of the workers' URL."""
    confirmed: bool = False
    """The receiver settles the callback, and reads the job's end itself instead of getting it as an argument."""


class DueCallback(NamedTuple):
    """A callback to publish now."""

    job_id: str
    callback: Callback


class Callbacks:
    """The callbacks of all jobs."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def know(self, brokers: Iterable[str]) -> None:
        """Announce that a worker publishes on these brokers: jobs that name one are accepted for a week."""
        self._keyspace.run("know_brokers", json.dumps(list(brokers)))

    def stranded(self) -> dict[str, int]:
        """Brokers that no worker knows any more: name → number of ended jobs with an unpublished callback there."""
        found = iter(self._keyspace.run("stranded_callbacks", _SILENT_SECONDS))
        return {broker: int(jobs) for broker, jobs in zip(found, found, strict=True)}

    def known(self) -> list[str]:
        """The names of the brokers that workers know."""
        return sorted(self._keyspace.client.zrange(self._keyspace.key("brokers"), 0, -1))

    def due(self, broker: str) -> list[DueCallback]:
        """Take the callbacks due on a broker; an unsettled one is due again later."""
        found = iter(self._keyspace.run("due_callbacks", broker, _AT_ONCE))
        return [
            DueCallback(job_id, Callback.model_validate_json(document))
            for job_id, document in zip(found, found, strict=True)
        ]

    def settle(self, job_id: str) -> None:
        """Mark the job's callback as done, so that it is not published any more."""
        self._keyspace.run("settle_callback", job_id, "")

    def put_off(self, job_id: str, seconds: float) -> None:
        """Postpone the job's callback, which could not be published, for `seconds`."""
        self._keyspace.run("settle_callback", job_id, seconds)
