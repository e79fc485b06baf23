"""Notices: events of a job for webhooks, kept until they are delivered or given up.

Guarantees:

- The step that writes an event writes its notices.
- A notice is offered to one worker at a time until it is settled, so it is delivered at least once, under a constant id.
- Giving up a notice is an event of the job.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from swarm.core.notices import WebhookNotice
from swarm.store.keyspace import Keyspace

OWN = "job"
"""The name that stands for the addresses which jobs bring."""


class Address(BaseModel):
    """An address that a job brings."""

    model_config = ConfigDict(frozen=True)

    url: str
    secret: str


class DueNotices(BaseModel):
    """A notice to be sent now."""

    notice: WebhookNotice
    tries: int
    """Number of tries, including this one."""
    address: Address | None


class AddressState(BaseModel):
    """The delivery state of one notice."""

    model_config = ConfigDict(frozen=True)

    state: Literal["delivered", "waits", "lost"]
    """`lost`: given up."""
    tries: int = 0
    why: str = ""
    """Why the last try failed."""


class AddressView(BaseModel):
    """The state of an address that workers deliver to."""

    model_config = ConfigDict(frozen=True)

    name: str
    said_at: float
    """When a worker last announced that it delivers there."""
    waiting: int
    lost: int
    """Notices that were given up; kept for some days."""
    first: AddressState | None
    """The notice whose next try comes first."""


class Webhooks:
    """The notices of all jobs."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def know(self, names: Iterable[str]) -> None:
        """Announce that a worker delivers to these addresses: for a day, new events have notices for them."""
        self._keyspace.run("know_webhooks", json.dumps(list(names)))

    def due(self, name: str, most: int, lease_seconds: float, longest_seconds: float) -> list[DueNotices]:
        """Take the notices that are due at an address; unsettled ones are offered again after the lease."""
        found = iter(self._keyspace.run("due_webhooks", name, most, lease_seconds, longest_seconds))
        return [
            DueNotices(
                notice=WebhookNotice.model_validate_json(document),
                tries=int(tries),
                address=Address.model_validate_json(address) if address else None,
            )
            for _, document, tries, address in zip(found, found, found, found, strict=True)
        ]

    def addresses(self) -> list[AddressView]:
        """The states of addresses that workers deliver to, or did within a day."""
        found = iter(self._keyspace.run("list_webhooks"))
        return [
            AddressView(
                name=name,
                said_at=float(said_at),
                waiting=int(waiting),
                lost=int(lost),
                first=self.find(name, first) if first else None,
            )
            for name, said_at, waiting, lost, first in zip(found, found, found, found, found, strict=True)
        ]

    def find(self, name: str, notice_id: str) -> AddressState:
        """Return a notice's state."""
        state, *rest = self._keyspace.run("find_notice", name, notice_id)
        return AddressState(state=state, tries=int(rest[0]), why=rest[1]) if rest else AddressState(state=state)

    def test(self, name: str, now: float) -> str:
        """Send a test notice to an address; returns its id for `find`."""
        about = {"job_id": f"test-{secrets.token_hex(4)}", "agent_id": "", "seq": 0, "title": "a test", "about": {}}
        notice = WebhookNotice(type="test", at=now, rehearsed=True, **about)
        self._keyspace.run("test_webhook", name, notice.id, notice.model_dump_json())
        return notice.id

    def resend(self, name: str) -> int:
        """Resend all notices that were given up at an address; returns their number."""
        return int(self._keyspace.run("resend_webhooks", name))

    def settle(self, name: str, notice: WebhookNotice) -> None:
        """Settle a delivered notice."""
        self._keyspace.run("settle_webhook", name, notice.id)

    def put_off(self, name: str, notice: WebhookNotice, seconds: float, why: str) -> None:
        """Put off a notice that could not be delivered; it is due again after so many seconds."""
        self._keyspace.run("put_off_webhook", name, notice.id, seconds, why)

    def give_up(self, name: str, notice: WebhookNotice, why: str) -> None:
        """Give up a notice for good; the job's events record it."""
        self._keyspace.run("put_off_webhook", name, notice.id, "", why)
