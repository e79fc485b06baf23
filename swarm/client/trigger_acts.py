"""Acts on triggers, for HTTP, the page and MCP."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from swarm.capabilities.triggers.model import MAX_EVENT_BYTES, TriggerEvent, read_trigger
from swarm.capabilities.triggers.store import Triggers, TriggerView
from swarm.client.acts import ACTS
from swarm.client.operations import Invocation, Words
from swarm.client.order import REMOTE_LEAVES_OUT
from swarm.client.trigger_reads import TriggerName
from swarm.client.triggers import hold_trigger, put_trigger, take_event
from swarm.core.errors import ConfigurationError

EventId = Annotated[str, Field(description="The event's id.")]


class PutTrigger(BaseModel):
    """A trigger that was put."""

    trigger: TriggerView
    state: Literal["new", "changed", "same"]


class FiredTrigger(BaseModel):
    """The answer to an event."""

    state: Literal["taken", "duplicate"]
    event: str
    job: str
    """Id of the job that a worker starts for it, unless the trigger's rule has it skipped or continues another job."""


@ACTS.post("/triggers", "submit")
def apply_trigger(
    call: Invocation, text: Annotated[Words, Field(description="The trigger as a file: frontmatter and prompt.")]
) -> PutTrigger:
    """Put a trigger, or change the one of its name. Its jobs may do what jobs of the caller may."""
    trigger = read_trigger(text, "text")
    if left_out := sorted(REMOTE_LEAVES_OUT.keys() & trigger.order.keys()):
        raise ConfigurationError(f"{left_out[0]}: {REMOTE_LEAVES_OUT[left_out[0]]}")
    state: Any = put_trigger(call.swarm, trigger, call.by)
    return PutTrigger(trigger=Triggers(call.swarm.store.keyspace).get(trigger.name), state=state)


@ACTS.post("/triggers/{trigger}/fire", "submit")
def fire_trigger(
    call: Invocation,
    trigger: TriggerName,
    data: Annotated[Any, Field(description="The event's data.")] = None,
    type: Annotated[str, Field(description="The event's type.")] = "by hand",
    event: Annotated[str, Field(description="The event's id; a repeat starts nothing. Default: a new one.")] = "",
) -> FiredTrigger:
    """Start a trigger by hand, with this event, also while it is paused."""
    return fire(call, trigger, TriggerEvent(id=event or f"hand-{secrets.token_hex(6)}", type=type, data=data))


@ACTS.post("/triggers/{trigger}/events/{event}/replay", "submit")
def replay_event(call: Invocation, trigger: TriggerName, event: EventId) -> FiredTrigger:
    """Take in an event once more, as a new one, by the trigger as it is now."""
    firing = Triggers(call.swarm.store.keyspace).firing(trigger, event)
    if firing.event is None:
        raise ConfigurationError(f"the event {event} is no longer kept")
    again = firing.event.model_copy(update={"id": f"{event[:180]}~{secrets.token_hex(4)}"})
    return _take(call, trigger, again)


def fire(call: Invocation, name: str, event: TriggerEvent) -> FiredTrigger:
    """Take in an event by hand. Raises `BeyondCeiling` for a trigger whose jobs may do more than the caller's, `ConfigurationError`."""
    if len(event.model_dump_json()) > MAX_EVENT_BYTES:
        raise ConfigurationError(
            f"the event has more than {MAX_EVENT_BYTES // 1024} KiB; name a file or an address in it"
        )
    return _take(call, name, event)


def _take(call: Invocation, name: str, event: TriggerEvent) -> FiredTrigger:
    view = Triggers(call.swarm.store.keyspace).get(name)
    hold_trigger(call.swarm, view.trigger)
    taken = take_event(call.swarm, view.trigger, event, by_hand=True)
    call.ready()
    return FiredTrigger(state="duplicate" if taken.state == "duplicate" else "taken", event=event.id, job=taken.job)


@ACTS.post("/triggers/{trigger}/pause", "cancel")
def pause_trigger(call: Invocation, trigger: TriggerName) -> TriggerView:
    """Let a trigger take in no events. Senders of webhooks are asked to try again later; times that pass are not made up for."""
    return _set_paused(call, trigger, paused=True)


@ACTS.post("/triggers/{trigger}/resume", "submit")
def resume_trigger(call: Invocation, trigger: TriggerName) -> TriggerView:
    """Let a paused trigger take in events again."""
    hold_trigger(call.swarm, Triggers(call.swarm.store.keyspace).get(trigger).trigger)
    return _set_paused(call, trigger, paused=False)


def _set_paused(call: Invocation, name: str, *, paused: bool) -> TriggerView:
    triggers = Triggers(call.swarm.store.keyspace)
    triggers.pause(name, paused=paused)
    return triggers.get(name)


@ACTS.post("/triggers/{trigger}/delete", "cancel", wrap="deleted")
def delete_trigger(call: Invocation, trigger: TriggerName) -> str:
    """Delete a trigger with the list of its events. Its jobs stay."""
    Triggers(call.swarm.store.keyspace).delete(trigger)
    return trigger
