"""What a parked agent waits for, in words. Pure."""

from __future__ import annotations

from swarm.agent.journaled import Condition


def describe_wait(condition: Condition) -> str:
    """The parts of the condition: `2 agents or a message`."""
    reasons = []
    for ids, what in ((condition.children, "agent"), (condition.tasks, "task")):
        if ids:
            reasons.append(f"{len(ids)} {what}{'' if len(ids) == 1 else 's'}")
    if condition.event:
        reasons.append(f"the event {condition.event}")
    elif condition.question:
        reasons.append("an answer")
    if condition.rest:
        reasons.append("those who work for it")
    elif condition.mail:
        reasons.append("a message")
    if condition.purse:
        reasons.append("a part of the budget")
    if condition.slot:
        reasons.append("its share of the model")
    if condition.batch:
        reasons.append("its batch")
    if condition.until is not None:
        reasons.append("a moment")
    return " or ".join(reasons) or "nothing"
