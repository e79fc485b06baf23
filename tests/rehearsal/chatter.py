"""The shipped scenario `chatter`: agents that write numbered messages to each other, so that a lost or doubled one shows.

A prompt `CHATTER agents=8 messages=1600 batch=25 think=100` makes its agent start eight others in the background, `a0` … `a7`, and
wait for them. Each sends its part of the messages, `batch` of them in a reply that takes `think` milliseconds, to the others in
turn; one that a full mailbox refuses it sends again after a pause. Who has nothing left to send ends, and goes on whenever a
message comes.
"""

from __future__ import annotations

import re
from collections import deque

from swarm.rehearsal.conversation import Conversation
from swarm.rehearsal.scenario import ScriptedCall, ScriptedReply

PAUSE_SECONDS = 0.5
_CHATTER = re.compile(r"\bCHATTER((?:[ \t]+\w+=\d+)+)")
_DELIVERED = "Delivered"


def member_name(number: int) -> str:
    """The name of an agent that talks."""
    return f"a{number}"


def receiver_of(sender: int, message: int, agents: int) -> int:
    """To whom a sender's message number so and so goes: to each of the others equally often, in an order that changes."""
    others = agents - 1
    return (sender + 1 + (message + message // others) % others) % agents


def message_text(message: int) -> str:
    """The body of a sender's message number so and so."""
    return f"<message> & number {message}"


def answer_chatter(conversation: Conversation) -> ScriptedReply | None:
    """The reply of one of the agents, or None if the prompt asks for no chatter."""
    orders = _CHATTER.findall(conversation.prompt)
    if not orders:
        return None
    order = {key: int(value) for key, value in (pair.split("=") for pair in orders[-1].split())}
    agents, messages, batch = order.get("agents", 2), order.get("messages", 10), order.get("batch", 10)
    if "me" not in order:
        if conversation.turn == 0:
            return ScriptedReply(tools=tuple(_start(number, orders[-1].strip()) for number in range(agents)))
        return ScriptedReply(text="The others are talking.")
    own = messages // agents
    waiting, pausing = _left_to_send(conversation.results, own, batch)
    if pausing:
        return ScriptedReply(tools=(ScriptedCall(name="Bash", input={"command": f"sleep {PAUSE_SECONDS}"}),))
    if waiting:
        think = order.get("think", 0) / 1000
        calls = tuple(_send(order["me"], number, agents) for number in waiting[:batch])
        return ScriptedReply(tools=calls, latency_seconds=(think, think) if think else None)
    return ScriptedReply(text=f"All {own} are sent.")


def _start(number: int, order: str) -> ScriptedCall:
    return ScriptedCall(
        name="Agent",
        input={
            "description": f"talk as {member_name(number)}",
            "prompt": f"CHATTER {order} me={number}",
            "name": member_name(number),
            "subagent_type": "general-purpose",
            "run_in_background": True,
        },
    )


def _send(me: int, number: int, agents: int) -> ScriptedCall:
    to = member_name(receiver_of(me, number, agents))
    return ScriptedCall(name="SendMessage", input={"to": to, "message": message_text(number)})


def _left_to_send(results: tuple[str, ...], own: int, batch: int) -> tuple[list[int], bool]:
    """The numbers that are not delivered yet, in order, and whether a pause comes first: replayed from all results so far."""
    waiting = deque(range(own))
    at = 0
    while at < len(results):
        sent = [waiting.popleft() for _ in range(min(batch, len(waiting)))]
        told = results[at : at + len(sent)]
        refused = [number for number, text in zip(sent, told, strict=True) if not text.startswith(_DELIVERED)]
        at += len(sent)
        waiting.extendleft(reversed(refused))
        if refused and at == len(results):
            return list(waiting), True
        # The pause after a refusal has a result, too.
        at += bool(refused)
    return list(waiting), False
