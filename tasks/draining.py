"""Leaving a host free: its workers take no agents, hand over those that they run, and stay, until they may again.

The mark is in Redis, so a worker that is started there meanwhile obeys it, too; each looks when it renews its leases.
"""

from __future__ import annotations

from typing import Any

from swarm.log import EventLog
from swarm.tasks import process, standing
from swarm.tasks.fetching import own_queue

log = EventLog("swarm.draining")


def obey_drain(worker: Any) -> None:
    """Read the mark, and begin or end to leave this worker free. Called in the main process."""
    runtime = process.runtime()
    wanted = runtime.store.is_drained(*standing.names())
    consumer = getattr(worker, "consumer", None)
    if consumer is None or getattr(consumer, "task_consumer", None) is None or not process.set_aside(wanted):
        return
    queues = (runtime.settings.key_prefix, own_queue())
    if not wanted:
        # For a connection that is made anew before, or instead of, what follows.
        consumer.app.amqp.queues.select(queues)
    for queue in queues:
        # Its own thread does it: the consumer is nobody else's.
        consumer.call_soon(consumer.cancel_task_queue if wanted else consumer.add_task_queue, queue)
    standing.announce()
    log.info("worker.set_aside" if wanted else "worker.back", worker=process.worker_name())
