"""Reads of triggers, for HTTP, the page and MCP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.capabilities.triggers.store import Firing, Triggers, TriggerView
from swarm.client.operations import Invocation, Limit
from swarm.client.reads import READS

TriggerName = Annotated[str, Field(description="The trigger's name.")]


@READS.get("/triggers", wrap="triggers")
def list_triggers(call: Invocation) -> list[TriggerView]:
    """All triggers: what starts jobs by itself, and what became of it."""
    return Triggers(call.swarm.store.keyspace).all()


@READS.get("/triggers/{trigger}")
def get_trigger(call: Invocation, trigger: TriggerName) -> TriggerView:
    """One trigger."""
    return Triggers(call.swarm.store.keyspace).get(trigger)


@READS.get("/triggers/{trigger}/events", wrap="events")
def list_trigger_events(call: Invocation, trigger: TriggerName, limit: Limit = 50) -> list[Firing]:
    """The newest events that a trigger took in, each with its job or the reason why there is none."""
    return Triggers(call.swarm.store.keyspace).firings(trigger, limit)
