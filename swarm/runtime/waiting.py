"""Waiting: giving the process back until a condition holds. Whoever waits holds no process, and loses no wake-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.agent.entries import ToolFinished
from swarm.agent.journaled import Condition
from swarm.models import Block
from swarm.runtime.own_time import within_time
from swarm.runtime.segment import Segment, Waits
from swarm.runtime.toolbox import Toolbox
from swarm.store.slots import Slot
from swarm.store.values import GoOn

LONGEST_IN_PLACE_SECONDS = 2.0
"""A longer wait for a slot that is held gives it back, and the process."""


def park(
    segment: Segment, condition: Condition, *, tool_use_id: str = "", ask: Mapping[str, Any] | None = None
) -> Waits | GoOn:
    """Park until the condition holds, unless it holds already; `ask` is a question that is put in the same step."""
    condition = within_time(segment, condition)
    answer = segment.journal.park(condition, tool_use_id=tool_use_id, ask=ask)
    if isinstance(answer, GoOn):
        segment.journal.unread += answer.why == "mail"
        return answer
    segment.publish(answer)
    return Waits(condition)


def wait_for_slot(segment: Segment) -> Waits | GoOn | None:
    """Have the agent's turn to ask the model come: None once it has; `GoOn`: see what is next again. Raises `Interrupted`."""
    share = segment.journal.share
    if share is None or not share.limit_class:
        return None
    if share.slot is None:
        share.slot, effect = segment.store.ask_for_slot(segment.claim, share.wish(segment.life))
        segment.publish(effect)
    if not isinstance(share.slot, Slot):
        share.slot = None
        return park(segment, Condition(slot=True))
    wait = share.slot.at - segment.claim.now()
    if wait > LONGEST_IN_PLACE_SECONDS:
        # Nobody may ask since it was given.
        until, share.slot = share.slot.at, None
        return park(segment, Condition(until=until))
    if wait > 0:
        with segment.stop.waiting():
            segment.stop.event.wait(wait)
        segment.stop.check()
    return None


def wait_for(segment: Segment, toolbox: Toolbox, call: Block, since: Condition | None) -> Waits | None:
    """Carry out a call that waits: None when it has its result. `since` is what it has already waited for."""
    if since is None:
        condition = toolbox.find_condition(call)
        if isinstance(condition, ToolFinished):
            segment.journal.append_results([condition])
            return None
        waits = park(segment, condition, tool_use_id=call["id"])
        if isinstance(waits, Waits):
            return waits
        since = condition
    segment.journal.append_results([toolbox.run(call, waited=since)])
    return None
