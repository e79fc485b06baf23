"""An agent's post: taking its mail in, sending messages, waiting for other agents.

Mail enters the conversation between turns, and only the journal entry that holds it moves the cursor. A message that an agent
sends and the result of its call are one atomic step, so neither a crash nor a repeat doubles or loses it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from swarm.agent.entries import Condition, Mail, ToolFinished
from swarm.agent.spec import TERMINAL_STATES
from swarm.errors import BadName, MailboxFull, MessageRefused, ReceiverEnded, ToolError, UnknownReceiver
from swarm.ids import request_id
from swarm.mailbox import Receiver, check_body, render_mail
from swarm.models import Block
from swarm.store.agents import Counters, Effect, GoOn, Letter
from swarm.tasks.journal import Journal
from swarm.tools.peers import DEFAULT_WAIT_SECONDS, SEND_MESSAGE, WAIT_AGENTS
from swarm.tools.registry import validate_input

REQUEST_SECONDS = 3_600.0
"""How long a request for a shutdown can be answered."""
MAX_REQUEST_ID = 100
_SHOWN_RECEIVERS = 20


class Post:
    """The post of one running agent."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._store, self._spec = journal.store, journal.claim.spec

    def take_mail(self) -> bool:
        """Take unread messages into the conversation; answers whether there were any."""
        journal = self._journal
        messages = self._store.mail(self._spec.agent_id, journal.life.cursor)
        if not messages:
            journal.unread = 0
            return False
        entry = journal.stamp(
            Mail(text=render_mail(messages), cursor=messages[-1].id, ids=[message.id for message in messages])
        )
        unread = self._store.take_mail(journal.claim, journal.next_number, entry, messages)
        journal.unread = 0 if unread is None else unread
        journal.life.apply(entry)
        return True

    # -- sending -------------------------------------------------------------------------------------------

    def send(self, call: Block) -> Effect:
        """Carry out a `SendMessage` call; a refusal is its result."""
        try:
            given = validate_input(SEND_MESSAGE, call["input"])
            receivers = self._receivers(given)
            letter = self._letter(call, given)
            return self._deliver(call, letter, receivers)
        except (ToolError, MessageRefused) as error:
            result = ToolFinished(tool_use_id=call["id"], text=str(error), is_error=True)
            self._journal.append([result], counters=Counters(tools=1))
            return Effect()

    def _receivers(self, given: dict[str, Any]) -> list[Receiver]:
        receivers = self._store.directory(self._spec.job_id).find(given["to"], self._spec.agent_id)
        kind = given.get("kind", "message")
        if kind != "message" and (len(receivers) != 1 or receivers[0].id == self._spec.job_id):
            raise ToolError(f"A {kind} goes to one agent.")
        if kind == "shutdown_request":
            [[parent, teammate]] = self._store.fields([receivers[0].id], "parent", "teammate")
            if parent != self._spec.agent_id or teammate != "1":
                raise ToolError(f"{receivers[0].name} is not a teammate of yours; stop other agents with StopAgent.")
        return receivers

    def _letter(self, call: Block, given: dict[str, Any]) -> Letter:
        kind = given.get("kind", "message")
        answers = kind.endswith("_response")
        if len(given.get("request_id", "")) > MAX_REQUEST_ID:
            raise ToolError("There is no such request: `request_id` is too long to be one.")
        if answers and (not given.get("request_id") or "approve" not in given):
            raise ToolError(f"A {kind} needs the `request_id` that it answers, and `approve`.")
        return Letter(
            job=self._spec.job_id,
            sender=self._spec.agent_id,
            name=self._spec.name or ("root" if self._spec.parent_id is None else self._spec.agent_id),
            kind=kind,
            body=_with_verdict(check_body(given["message"]), given) if answers else check_body(given["message"]),
            reply_to=given.get("request_id", ""),
            request=request_id(self._spec.agent_id, call["id"]) if kind.endswith("_request") else "",
            expires=REQUEST_SECONDS,
            approve=bool(given.get("approve")),
            live_only=given["to"].strip() == "*",
        )

    def _deliver(self, call: Block, letter: Letter, receivers: Sequence[Receiver]) -> Effect:
        left_out: list[str] = []
        while True:
            names = ", ".join(receiver.name for receiver in receivers[:_SHOWN_RECEIVERS])
            if len(receivers) > _SHOWN_RECEIVERS:
                names += f" and {len(receivers) - _SHOWN_RECEIVERS} more"
            text = f"Delivered to {names}." + (f" Request id: {letter.request}." if letter.request else "")
            if left_out:
                text += f" Not delivered to {', '.join(left_out)}."
            entry = self._journal.stamp(ToolFinished(tool_use_id=call["id"], text=text))
            try:
                sent = self._store.send(
                    letter, receivers, claim=self._journal.claim, number=self._journal.next_number, entry=entry
                )
            except (MailboxFull, ReceiverEnded) as error:
                # One full mailbox, or an agent that ends just now, must not keep a broadcast from the others.
                reached = [receiver for receiver in receivers if receiver.name != error.receiver]
                if not letter.live_only or len(reached) in (0, len(receivers)):
                    raise
                left_out.append(f"{error.receiver} ({'mailbox full' if isinstance(error, MailboxFull) else 'ended'})")
                receivers = reached
                continue
            self._journal.unread = self._journal.unread if sent.unread is None else sent.unread
            self._journal.life.apply(entry)
            return sent.effect

    # -- waiting -------------------------------------------------------------------------------------------

    def wait(self, call: Block, since: Condition | None) -> Effect | None:
        """Carry out a `WaitAgents` call: an effect when the agent has parked, None when the call has its result."""
        try:
            given = validate_input(WAIT_AGENTS, call["input"])
            agent_ids = since.children if since is not None else self._awaited(given)
            if not agent_ids:
                raise ToolError("None of your agents is at work in the background: there is nothing to wait for.")
        except (ToolError, MessageRefused) as error:
            self._finish(call, str(error), is_error=True)
            return None
        if since is None:
            timeout = given.get("timeout_seconds", DEFAULT_WAIT_SECONDS)
            condition = Condition(
                children=agent_ids, mode=given.get("mode", "all"), mail="talk", until=time.time() + timeout
            )
            answer = self._journal.park(condition, tool_use_id=call["id"])
            if not isinstance(answer, GoOn):
                return answer
        self._finish(call, self._describe(agent_ids))
        return None

    def _awaited(self, given: dict[str, Any]) -> list[str]:
        if not given.get("agent_ids"):
            children = sorted(self._store.children(self._spec.agent_id))
            records = self._store.fields(children, "state", "background", "idle")
            return [
                child
                for child, (state, background, idle) in zip(children, records, strict=True)
                if state not in TERMINAL_STATES and background == "1" and idle != "1"
            ]
        return [self.find_child(who) for who in dict.fromkeys(given["agent_ids"])]

    def find_child(self, who: str, *, teammates: bool = True) -> str:
        """The id of an agent that this one started. Raises `UnknownReceiver` for any other."""
        [found] = self._store.directory(self._spec.job_id).find(
            "\0" if who.strip() == "*" else who, self._spec.agent_id
        )
        if found.id == self._spec.job_id:
            raise UnknownReceiver("the person is no agent")
        [[parent, teammate]] = self._store.fields([found.id], "parent", "teammate")
        if parent != self._spec.agent_id:
            raise UnknownReceiver(f"{found.name} is not an agent that you started")
        if teammate == "1" and not teammates:
            raise BadName(f"{found.name} is a teammate: give it more work with SendMessage or on the board")
        return found.id

    def _describe(self, agent_ids: Sequence[str]) -> str:
        records = self._store.fields(agent_ids, "name", "label", "state", "idle", "activity")
        lines, working = [], 0
        for agent_id, (name, label, state, idle, activity) in zip(agent_ids, records, strict=True):
            at_work = state not in TERMINAL_STATES and idle != "1"
            working += at_work
            now = f"{state}, {activity}" if at_work and activity else "idle" if idle == "1" else state
            lines.append(f"- {f'{name} ' if name else ''}{agent_id} ({label}): {now}")
        head = f"{working} of {len(agent_ids)} still at work." if working else "None of them is at work any more."
        return "\n".join([f"{head} Results and messages follow below as they arrive.", *lines])

    def _finish(self, call: Block, text: str, *, is_error: bool = False) -> None:
        result = ToolFinished(tool_use_id=call["id"], text=text, is_error=is_error)
        self._journal.append([result], counters=Counters(tools=1))


def _with_verdict(body: str, given: dict[str, Any]) -> str:
    return f"{'Approved' if given['approve'] else 'Rejected'}. {body}"
