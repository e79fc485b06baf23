"""Messaging: takes an agent's mail in and sends its messages.

Mail enters the conversation between turns, and only its journal entry moves the cursor. A message and the result of the call that
sends it are one atomic step, so neither a crash nor a repeat doubles or loses it. A program sends and receives while it runs: each
message is journaled in the step that sends it or takes it in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swarm.agent.entries import Exchanged, Mail, ToolFinished, encode_entry
from swarm.agent.notes import left_in_copy
from swarm.core.errors import MailboxFull, MessageRefused, ReceiverEnded, ToolError
from swarm.core.ids import request_id
from swarm.mailbox import Message, Receiver, check_body, render_mail, render_note
from swarm.models import Block
from swarm.runtime.approvals import REQUEST_SECONDS, judge_call
from swarm.runtime.evidence import add_to_mail
from swarm.runtime.segment import Segment
from swarm.runtime.steps import Step
from swarm.store.values import DELIVERIES_AT_ONCE, OutgoingMessage
from swarm.tools import ToolContext
from swarm.tools.messages import SEND_MESSAGE
from swarm.tools.registry import validate_input

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

PROGRAM_SECONDS = 1_800.0
"""Time limit of a program that states none."""
_MARGIN_SECONDS = 60.0
"""Margin before the process counts as hung and is killed."""
MAX_REQUEST_ID = 100
_SHOWN_RECEIVERS = 20


class Messenger:
    """The messages of one running agent."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self._journal = segment, segment.journal
        self._store, self._spec = segment.store, segment.spec
        self._known: dict[str, list[Receiver]] = {}

    def take_mail(self) -> bool:
        """Take unread messages into the conversation; returns whether there were any."""
        journal = self._journal
        messages = self._store.mail.read(self._spec.agent_id, journal.history.cursor)
        if not messages:
            journal.unread = 0
            return False
        mail = render_mail(messages) + add_to_mail(journal.history, messages, self._store.journals.read)
        text = "\n\n".join([mail, *self._tell_copies(messages)])
        ids = [message.id for message in messages]
        journal.take_in(Mail(text=text, cursor=messages[-1].id, ids=ids), messages)
        return True

    def _tell_copies(self, messages: Sequence[Message]) -> list[str]:
        """Notes about unmerged work in copies, for children that have ended by these messages."""
        if not self._journal.history.commit:
            return []
        senders = dict.fromkeys(message.sender for message in messages if message.kind == "notification")
        children = self._store.agents.find(list(senders))
        return [
            render_note(left_in_copy(child.id))
            for child in children
            if child and child.isolation != "none" and child.parent_id == self._spec.agent_id and not child.at_work
        ]

    # -- sending -------------------------------------------------------------------------------------------

    def send(self, calls: Sequence[Block]) -> None:
        """Carry out `SendMessage` calls in order. A refusal becomes its call's result."""
        waiting = deque(calls)
        while waiting:
            batch: list[_Outgoing] = []
            try:
                while waiting and sum(len(one.receivers) for one in batch) < DELIVERIES_AT_ONCE:
                    one = self._prepare(waiting[0])
                    if batch and len(one.receivers) > DELIVERIES_AT_ONCE:
                        break
                    batch.append(one)
                    waiting.popleft()
            except (ToolError, MessageRefused) as error:
                # Messages before the refused one are sent first.
                if not batch:
                    self._finish(waiting.popleft(), str(error), is_error=True)
            self._deliver(batch)

    def _prepare(self, call: Block) -> _Outgoing:
        given = validate_input(SEND_MESSAGE, call["input"])
        receivers = self._receivers(given)
        return _Outgoing(call, self._outgoing(call, given), receivers)

    def _deliver_ahead(self, one: _Outgoing) -> None:
        """Send a broadcast in parts, except the last part, which carries the call's result."""
        names = {receiver.id: receiver.name for receiver in one.receivers}
        while len(one.receivers) - one.reached > DELIVERIES_AT_ONCE:
            sent = self._store.mail.send_from(self._segment.claim, self._journal.next_number, [one.part()], names)
            self._segment.publish(sent.effect)
            if sent.refusal is None:
                one.reached += DELIVERIES_AT_ONCE
            elif not one.leave_out(sent.refusal):
                return

    def _deliver(self, batch: list[_Outgoing]) -> None:
        for one in batch:
            self._deliver_ahead(one)
        while batch:
            entries = [self._journal.stamp(one.result()) for one in batch]
            sent = self._store.mail.send_from(
                self._segment.claim,
                self._journal.next_number,
                [one.addressed(entry) for one, entry in zip(batch, entries, strict=True)],
                {receiver.id: receiver.name for one in batch for receiver in one.receivers},
            )
            self._journal.unread = self._journal.unread if sent.unread is None else sent.unread
            for entry in entries[: sent.count]:
                self._journal.apply(entry)
            self._segment.publish(sent.effect)
            batch = batch[sent.count :]
            if sent.refusal is not None and not batch[0].leave_out(sent.refusal):
                self._finish(batch.pop(0).call, str(sent.refusal), is_error=True)

    def _receivers(self, given: dict[str, Any]) -> list[Receiver]:
        receivers = self._find(given["to"])
        kind = given.get("kind", "message")
        if kind != "message" and (len(receivers) != 1 or receivers[0].id == self._spec.job_id):
            raise ToolError(f"A {kind} goes to one agent.")
        if kind == "shutdown_request":
            [agent] = self._store.agents.find([receivers[0].id])
            if agent is None or agent.parent_id != self._spec.agent_id or not agent.teammate:
                raise ToolError(f"{receivers[0].name} is not a teammate of yours; stop other agents with StopAgent.")
        return receivers

    def _find(self, to: str) -> list[Receiver]:
        # Names are never reused; only the set of live agents changes.
        if to not in self._known:
            found = self._store.mail.directory(self._spec.job_id).find(to, self._spec.agent_id)
            if to.strip() == "*":
                return found
            self._known[to] = found
        return self._known[to]

    def _outgoing(self, call: Block, given: dict[str, Any]) -> OutgoingMessage:
        kind = given.get("kind", "message")
        answers = kind.endswith("_response")
        if len(given.get("request_id", "")) > MAX_REQUEST_ID:
            raise ToolError("There is no such request: `request_id` is too long to be one.")
        if answers and (not given.get("request_id") or "approve" not in given):
            raise ToolError(f"A {kind} needs the `request_id` that it answers, and `approve`.")
        return OutgoingMessage(
            job=self._spec.job_id,
            sender=self._spec.agent_id,
            name=self._spec.called,
            kind=kind,
            body=_with_verdict(check_body(given["message"]), given) if answers else check_body(given["message"]),
            reply_to=given.get("request_id", ""),
            request=request_id(self._spec.agent_id, call["id"]) if kind.endswith("_request") else "",
            expires=REQUEST_SECONDS,
            approve=bool(given.get("approve")),
            most=_most(self._segment),
            live_only=given["to"].strip() == "*",
            once=f"{self._spec.agent_id}/{call['id']}/{self._journal.history.length}"
            if given["to"].strip() == "*"
            else "",
        )

    def _finish(self, call: Block, text: str, *, is_error: bool = False) -> None:
        self._journal.append_results([ToolFinished(tool_use_id=call["id"], text=text, is_error=is_error)])


@dataclass
class _Outgoing:
    """A call whose message is about to be sent."""

    call: Block
    outgoing: OutgoingMessage
    receivers: list[Receiver]
    left_out: list[str] = field(default_factory=list)
    """Receivers left out of a broadcast, with the reason."""

    reached: int = 0
    """Number of receivers that earlier steps have reached."""

    def result(self) -> ToolFinished:
        """Make the call's result for a delivered message."""
        names = ", ".join(receiver.name for receiver in self.receivers[:_SHOWN_RECEIVERS])
        if len(self.receivers) > _SHOWN_RECEIVERS:
            names += f" and {len(self.receivers) - _SHOWN_RECEIVERS} more"
        text = f"Delivered to {names}." + (f" Request id: {self.outgoing.request}." if self.outgoing.request else "")
        if self.left_out:
            text += f" Not delivered to {', '.join(self.left_out)}."
        return ToolFinished(tool_use_id=self.call["id"], text=text)

    def addressed(self, entry: ToolFinished) -> OutgoingMessage:
        """The message with its remaining receivers and its journal entry."""
        to = tuple(receiver.id for receiver in self.receivers[self.reached :])
        return self.outgoing.model_copy(update={"to": to, "entry": encode_entry(entry)})

    def part(self) -> OutgoingMessage:
        """The message for the next part of the receivers."""
        to = tuple(receiver.id for receiver in self.receivers[self.reached : self.reached + DELIVERIES_AT_ONCE])
        return self.outgoing.model_copy(update={"to": to})

    def leave_out(self, refusal: MessageRefused) -> bool:
        """Leave a full or ended receiver out of a broadcast; returns whether the others get it."""
        if not self.outgoing.live_only or not isinstance(refusal, MailboxFull | ReceiverEnded):
            return False
        reached = [receiver for receiver in self.receivers if receiver.name != refusal.receiver]
        if len(reached) in (0, len(self.receivers)):
            return False
        self.left_out.append(f"{refusal.receiver} ({'mailbox full' if isinstance(refusal, MailboxFull) else 'ended'})")
        self.receivers = reached
        return True


def _most(segment: Segment) -> tuple[int, int]:
    return segment.settings.agent_mail_mib, segment.settings.job_mail_mib


def _with_verdict(body: str, given: dict[str, Any]) -> str:
    return f"{'Approved' if given['approve'] else 'Rejected'}. {body}"


class ProgramStep(Step):
    """Messages of a running program."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        segment = parts.segment
        self._segment, self._journal, self._store = segment, segment.journal, segment.store
        wanted = segment.spec.definition.timeout_seconds or PROGRAM_SECONDS
        self.limit_seconds = max(1.0, min(wanted, segment.settings.hard_limit_seconds - _MARGIN_SECONDS))

    def equip(self, context: ToolContext) -> None:
        context.exchange = self

    def receive(self) -> Sequence[Message]:
        """Receive new messages.

        They count as received even if the program dies before it reads them: its end says that it was interrupted.
        """
        messages = self._store.mail.read(self._segment.spec.agent_id, self._journal.history.cursor)
        if messages:
            self._journal.take_in(Exchanged(text=render_mail(messages), cursor=messages[-1].id), messages)
        return messages

    def send(self, to: str, text: str) -> str:
        """Send a message as the agent; returns why it was not sent, or an empty text."""
        spec, given = self._segment.spec, {"to": to, "message": text}
        if (verdict := judge_call(self._segment, SEND_MESSAGE.name, given, sandboxed=True)).action != "allow":
            return f"not allowed: {verdict.reason}"
        try:
            receivers = self._store.mail.directory(spec.job_id).find(to, spec.agent_id)
            body = check_body(text)
        except (MessageRefused, ToolError) as error:
            return str(error)
        if len(receivers) != 1:
            return "a program writes to one receiver at a time"
        entry = self._journal.stamp(Exchanged(text=body, to=receivers[0].name))
        outgoing = OutgoingMessage(
            job=spec.job_id,
            sender=spec.agent_id,
            name=spec.called,
            kind="message",
            body=body,
            to=(receivers[0].id,),
            most=_most(self._segment),
            entry=encode_entry(entry),
        )
        sent = self._store.mail.send_from(
            self._segment.claim, self._journal.next_number, [outgoing], {receivers[0].id: receivers[0].name}
        )
        self._segment.publish(sent.effect)
        if sent.refusal is not None:
            return str(sent.refusal)
        self._journal.apply(entry)
        return ""
