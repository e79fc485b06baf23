"""When agents began to ask and to read, from what is stored: by the server's clock, whatever host they ran on."""

from __future__ import annotations

from swarm import Job
from swarm.agent.entries import Assistant, Mail
from swarm.store.store import Store


def first_request_seconds(store: Store, job: Job) -> float:
    """From the job's submission until its root's first request."""
    root = job.view().root_id
    created = float(store.keyspace.client.hget(store.keyspace.key("agent", root), "created"))
    first = next(entry for entry in store.journals.read(root) if isinstance(entry, Assistant))
    return first.at - first.duration_seconds - created


def reading_seconds(store: Store, agent_id: str) -> list[float]:
    """Of each message that was taken in, from its arrival in the mailbox until then; ids are the server's time."""
    return [
        entry.at - int(entry.ids[0].split("-")[0]) / 1e3
        for entry in store.journals.read(agent_id)
        if isinstance(entry, Mail)
    ]
