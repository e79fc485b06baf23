"""The time that an agent has for itself, apart from its job's: at its end it says its last words, and all below it is stopped."""

from __future__ import annotations

from swarm.agent import notes
from swarm.agent.decision import Action, CallModel, CollectChildren, Rest, Say, Settle, settle
from swarm.agent.journaled import Condition
from swarm.agent.life import Life
from swarm.runtime.segment import Segment

REASON = "the time of the agent that started it is over"


def end_of_time(segment: Segment) -> float | None:
    """When the time of the agent's run is over, by the server's clock; None: it has no limit of its own."""
    life, seconds = segment.life, segment.spec.max_seconds
    return None if seconds is None or not life.began_at else life.began_at + seconds


def is_over(segment: Segment) -> bool:
    """Whether it is."""
    end = end_of_time(segment)
    return end is not None and segment.claim.now() > end


def within_time(segment: Segment, condition: Condition) -> Condition:
    """What a parked agent waits for, at the latest until its time is over."""
    end = end_of_time(segment)
    if end is None or segment.life.last_words is not None:
        return condition
    return condition.model_copy(update={"until": min(end, condition.until or end)})


def keep_to_time(segment: Segment, action: Action) -> Action:
    """What is done instead of the next action once the time is over."""
    if not is_over(segment) or segment.life.last_words is not None:
        return action
    match action:
        case CallModel():
            return Say(
                notes.last_words("time", f"Your time of {(segment.spec.max_seconds or 0) / 60:g} minutes is over.")
            )
        case CollectChildren() | Rest():
            _stop_children(segment)
    return action


def is_out_of_time(segment: Segment) -> bool:
    """Whether its own time or its job's is over."""
    deadline = segment.claim.deadline
    return is_over(segment) or (deadline is not None and segment.claim.now() > deadline)


def leave_undone(life: Life) -> Settle | None:
    """At the time limit no further call is begun: there is time for last words only. None: one that was begun before is left, whose
    effect must be known."""
    begun = life.tools_started | life.spawned.keys()
    undone = [call for call in life.pending.values() if call["id"] not in begun]
    return settle(undone, notes.OUT_OF_TIME) if undone else None


def _stop_children(segment: Segment) -> None:
    claim, store = segment.claim, segment.store
    for child in store.agents(sorted(store.children(claim.agent_id))):
        if child is not None and not child.ended:
            segment.publish(store.cancel(child.id, REASON, by=(claim.agent_id, claim.generation)))
