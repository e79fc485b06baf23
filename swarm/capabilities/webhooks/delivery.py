"""Delivers notices: workers with an address take its due notices, each by one worker."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import httpx2

from swarm.capabilities.webhooks.addresses import names_of
from swarm.capabilities.webhooks.envelope import LONGEST_SECONDS, next_try_seconds, seal
from swarm.capabilities.webhooks.notices import DueNotices, Webhooks
from swarm.core.errors import ToolError
from swarm.core.log import EventLog
from swarm.core.settings import Settings
from swarm.runtime.additions import Duty, WorkerHost, WorkerPart
from swarm.store.store import Store
from swarm.tools.web.page import post
from swarm.tools.web.reach import find_reach

log = EventLog("swarm.webhooks")
ANNOUNCE_SECONDS = 2.5
"""Interval between announcements of an address; a Redis that came back without data needs one."""
DELIVER_SECONDS = 0.5
"""Interval between looks for due notices."""
_GONE = 410
_AT_ONCE = 8


class WebhooksOfWorker(WorkerPart):
    """A worker's deliveries, an address at a time."""

    def duties(self, host: WorkerHost) -> Iterable[Duty]:
        """Deliver to each address of the settings."""
        for name in names_of(self.settings):
            yield Duty(f"webhooks-{name}", DELIVER_SECONDS, Delivering(host.store, self.settings, name))


class Delivering:
    """Delivers the notices due at one address, once per call."""

    def __init__(self, store: Store, settings: Settings, name: str) -> None:
        self._settings, self._name = settings, name
        self._webhooks = Webhooks(store.keyspace)
        # A hanging delivery delays a few others, by less than the lease.
        self._lease = settings.lease_seconds
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"swarm-webhooks-{name}")

        self._announce_at = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self._announce_at:
            self._webhooks.know([self._name])
            self._announce_at = time.monotonic() + ANNOUNCE_SECONDS
        due = self._webhooks.due(self._name, _AT_ONCE, self._lease, LONGEST_SECONDS)
        # Errors that a delivery cannot handle, such as an unreachable Redis, are raised here; the lease returns the notice.
        for _ in self._pool.map(self._deliver, due):
            pass

    def _deliver(self, due: DueNotices) -> None:
        notice = due.notice
        try:
            status = self._send(due)
        except (ToolError, httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            why = f"{type(error).__name__}: {error}" if not isinstance(error, ToolError) else str(error)
        else:
            if 200 <= status < 300:
                self._webhooks.settle(self._name, notice)
                log.info("webhook.delivered", job_id=notice.job_id, webhook=self._name, notice=notice.id)
                return
            why = f"its server answered with status {status}"
            if status == _GONE:
                log.warning("webhook.given_up", job_id=notice.job_id, webhook=self._name, notice=notice.id, why=why)
                self._webhooks.give_up(self._name, notice, why)
                return
        log.warning("webhook.put_off", job_id=notice.job_id, webhook=self._name, notice=notice.id, why=why)
        self._webhooks.put_off(self._name, notice, next_try_seconds(due.tries, random.random()), why)

    def _send(self, due: DueNotices) -> int:
        settings = self._settings
        if due.address is None:
            url, secrets, reach = settings.webhooks[self._name], settings.webhook_secret or "", None
        else:
            url, secrets = due.address.url, due.address.secret
            reach = find_reach(settings, private=settings.job_webhooks == "private")
        body, headers = seal(due.notice, f"swarm:{settings.key_prefix}", secrets, time.time())
        status, _ = post(url, body, headers, reach, 0.75 * self._lease)
        return status
