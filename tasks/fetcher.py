"""Fetching: a worker with a free process takes agents that others left or take too slowly."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from celery import signals
from celery.worker import state as worker_state
from kombu import Queue

from swarm.agent.needs import Has, find_unmet, read_needs
from swarm.core.log import EventLog
from swarm.store.outage import RedisError
from swarm.store.store import Store
from swarm.tasks import heartbeat, process
from swarm.tasks.app import app
from swarm.tasks.publish import QUEUE_SECONDS, carry_out, publish_agents

log = EventLog("swarm.fetching")
FETCH_SECONDS = 0.5
"""Interval of looks by a worker with a free process."""
SPECIAL_FETCH_SECONDS = 0.1
"""Interval for a worker with special offers, which is also signalled for its agents."""
_LOOKED_AT = 200


def own_queue() -> str:
    """Name the queue that only this worker reads."""
    return f"{process.runtime().settings.key_prefix}.{process.worker_name()}"


@signals.celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def _read_own_queue(instance: Any, **_: Any) -> None:
    # Not declared: that would leave a trace of every past worker.
    instance.app.amqp.queues.select_add(Queue(own_queue(), routing_key=own_queue(), no_declare=True))


class Fetching:
    """Finds agents set aside that fit this worker; sends itself as many as it can run soon."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._seen: tuple[int, Has] | None = None
        """State of the aside queue and of this worker when nothing fitted."""
        self._first = 0

    def __call__(self) -> None:
        if process.draining():
            return  # a leaving worker takes no agents, and soon has no pool
        store, size = process.runtime().store, self._pool.num_processes
        free = size - len(worker_state.reserved_requests)
        if free <= 0:
            return
        now = (store.fleet.aside_news(), heartbeat.has())
        # Only jobs with a hub have late agents.
        if now[1].hub and (late := store.fleet.take_late(free)):
            _send_to_self(store, late)
        if not now[0] or now == self._seen:
            return
        found = store.fleet.aside(self._first, _LOOKED_AT)
        # Some more than can start at once, so that the next free process finds a message.
        fitting = _find_fitting(store, found, now[1])[: free + max(2, size // 4)]
        if fitting:
            _fetch(store, fitting)
            self._first = 0
        elif len(found) == _LOOKED_AT:
            self._first += _LOOKED_AT
        else:
            self._seen, self._first = now, 0


class Rung:
    """Fetches on a signal, and regularly because a process may have become free."""

    def __init__(self, fetching: Fetching) -> None:
        self._fetching = fetching

    def __call__(self) -> None:
        try:
            process.runtime().store.fleet.wait_bell(process.worker_name(), SPECIAL_FETCH_SECONDS)
        except RedisError:
            time.sleep(FETCH_SECONDS)  # an error returns at once, and is logged each time
            raise
        self._fetching()


def _find_fitting(store: Store, agent_ids: list[str], has: Has) -> list[str]:
    """Find fitting agents, alternating between jobs so that no large job delays the others."""
    found, of_job = [], Counter[str]()
    for agent_id, hint in zip(agent_ids, store.agents.hints(agent_ids), strict=True):
        needs = read_needs(hint.needs) if hint is not None else None
        if hint is not None and needs is not None and not find_unmet(needs, has):
            found.append((of_job[hint.job], agent_id))
            of_job[hint.job] += 1
    return [agent_id for _, agent_id in sorted(found, key=lambda one: one[0])]


def _fetch(store: Store, agent_ids: list[str]) -> None:
    effect, taken = store.fleet.take_aside(agent_ids)
    carry_out(app, store, effect)
    if taken:
        _send_to_self(store, taken)
        log.info("agents.fetched", agents=len(taken))


def _send_to_self(store: Store, agent_ids: list[str]) -> None:
    publish_agents(app, store, store.agents.hints(agent_ids), queue=own_queue())
    # A worker that ends leaves no queue behind; unread messages stay in the outbox.
    store.fleet.keep_queue(own_queue(), QUEUE_SECONDS)
