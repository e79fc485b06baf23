"""What tests of triggers share: signed deliveries, what became of an event, and an end without leftovers."""

from __future__ import annotations

import hashlib
import hmac

from swarm.capabilities.triggers.store import Firing, Triggers
from tests.fleet import Fleet
from tests.waiting import wait_for


def sign(secret: str, text: bytes) -> str:
    """The HMAC that most senders use."""
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def settled(fleet: Fleet, name: str, one: str) -> Firing:
    """An event of a trigger once workers have settled it."""
    triggers = Triggers(fleet.swarm.store.keyspace)

    def look() -> Firing | None:
        found = triggers.firing(name, one)
        return found if found.state not in ("waiting", "starting") else None

    return wait_for(f"{name}/{one} is settled", look, 100)


def remove_triggers(fleet: Fleet) -> None:
    """Delete all triggers of a shared fleet, and cancel their jobs."""
    triggers = Triggers(fleet.swarm.store.keyspace)
    for one in triggers.all():
        for firing in triggers.firings(one.name, 100):
            if firing.job and fleet.swarm.store.jobs.exists(firing.job):
                fleet.swarm.job(firing.job).cancel()
        triggers.delete(one.name)
