"""Waiting: an agent gives its process back until a condition holds, and loses no wake-up.

Also enforces an agent's own time limit: at its end the agent gives its final answer, and its children are stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swarm.agent import notes
from swarm.agent.decision import Action, CallModel, CollectChildren, Rest, Say, Settle, settle
from swarm.agent.entries import Parked, ToolFinished
from swarm.agent.history import History
from swarm.agent.journaled import Condition
from swarm.models import Block
from swarm.runtime.segment import Segment, Waits
from swarm.runtime.toolbox import Toolbox
from swarm.store.slots import Slot
from swarm.store.values import GoOn

_JOURNALED = 100
"""Most awaited agents that an entry names: a workflow waits for hundreds, again and again. The record names all."""
_REASON = "the time limit of the agent that started it was reached"


def park(
    segment: Segment,
    condition: Condition,
    *,
    tool_use_id: str = "",
    ask: Mapping[str, Any] | None = None,
    further: Mapping[str, Mapping[str, Any]] | None = None,
) -> Waits | GoOn:
    """Park until the condition holds, unless it does. `ask` is asked in the same step, as are `further` questions by their ids."""
    condition, journal = within_time(segment, condition), segment.journal
    told = condition if tool_use_id else condition.model_copy(update={"children": condition.children[:_JOURNALED]})
    entry, said = journal.stamp(Parked(condition=told, tool_use_id=tool_use_id)), segment.history.reply_text.text()
    number, known = journal.next_number, journal.chosen
    answer = segment.store.agents.park(
        segment.claim,
        number,
        entry,
        condition,
        said=said,
        chosen=json.loads(known)["id"] if known else "",
        ask=ask,
        further=further,
    )
    if isinstance(answer, GoOn):
        journal.unread += answer.why == "mail"
        journal.chosen = answer.chosen or known
        return answer
    segment.publish(answer)
    return Waits(condition)


def wait_for_slot(segment: Segment) -> Waits | GoOn | None:
    """Wait for a slot: None once the agent has it, `GoOn` to decide again. Raises `Interrupted`."""
    share = segment.journal.share
    if share.is_ready:
        return None
    if share.slot is None:
        share.slot, effect = segment.store.rates.ask_for_slot(segment.claim, share.reservation(segment.history))
        segment.publish(effect)
    if not isinstance(share.slot, Slot):
        share.slot = None
        return park(segment, Condition(slot=True))
    if (wait := share.slot.at - segment.claim.now()) > 0:
        with segment.stop.waiting():
            segment.stop.event.wait(wait)
        segment.stop.check()
    return None


def wait_for(segment: Segment, toolbox: Toolbox, call: Block, since: Condition | None) -> Waits | None:
    """Carry out a waiting call: None once it has its result. `since` was waited for already."""
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


# -- an agent's own time limit ----------------------------------------------------------------------------------


def end_of_time(segment: Segment) -> float | None:
    """When the agent's own time limit ends, by the server's clock; None without such a limit."""
    history, seconds = segment.history, segment.spec.max_seconds
    return None if seconds is None or not history.began_at else history.began_at + seconds


def has_ended(segment: Segment) -> bool:
    """Whether the agent's own time limit has passed."""
    end = end_of_time(segment)
    return end is not None and segment.claim.now() > end


def within_time(segment: Segment, condition: Condition) -> Condition:
    """Bound a condition by the agent's own time limit."""
    end = end_of_time(segment)
    if end is None or segment.history.final_answer is not None:
        return condition
    return condition.model_copy(update={"until": min(end, condition.until or end)})


def keep_to_time(segment: Segment, action: Action) -> Action:
    """Replace the next action if the time limit has passed."""
    if not has_ended(segment) or segment.history.final_answer is not None:
        return action
    match action:
        case CallModel():
            return Say(
                notes.final_answer(
                    "time", f"Your time of {(segment.spec.max_seconds or 0) / 60:g} minutes has run out."
                )
            )
        case CollectChildren() | Rest():
            _stop_children(segment)
    return action


def is_out_of_time(segment: Segment) -> bool:
    """Whether the agent's or its job's time limit has passed."""
    deadline = segment.claim.deadline
    return has_ended(segment) or (deadline is not None and segment.claim.now() > deadline)


def leave_undone(history: History) -> Settle | None:
    """Refuse calls that have not begun, so that only a final answer follows.

    None if all calls have begun: their effects must be known."""
    begun = history.tools_started | history.spawned.keys()
    undone = [call for call in history.pending.values() if call["id"] not in begun]
    return settle(undone, notes.OUT_OF_TIME) if undone else None


def _stop_children(segment: Segment) -> None:
    claim, store = segment.claim, segment.store
    for child in store.agents.find(sorted(store.agents.children(claim.agent_id))):
        if child is not None and not child.ended:
            segment.publish(store.agents.cancel(child.id, _REASON, by=(claim.agent_id, claim.generation)))
