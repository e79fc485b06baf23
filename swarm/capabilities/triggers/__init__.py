"""A capability: events start jobs: times, and webhooks of forges, chats and other programs."""

from __future__ import annotations

from swarm.core.capabilities import Capability

CAPABILITY = Capability(
    worker="swarm.capabilities.triggers.worker:TriggersOfWorker",
    acts="swarm.client.trigger_acts",
    reads="swarm.client.trigger_reads",
    routes="swarm.api.hooks:routes",
    panels="swarm.web.panels.triggers:PANELS",
    commands={"A fleet": {"triggers": "triggers:triggers"}},
)
