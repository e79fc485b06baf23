"""A capability: notify people of jobs over HTTP, at workers' addresses or one that a job brings."""

from __future__ import annotations

from swarm.core.capabilities import Capability

CAPABILITY = Capability(
    order="swarm.capabilities.webhooks.addresses:WebhookOfOrder",
    worker="swarm.capabilities.webhooks.delivery:WebhooksOfWorker",
    commands={"A fleet": {"webhooks": "webhooks:webhooks"}},
)
