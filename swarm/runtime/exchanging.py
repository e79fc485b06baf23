"""Messages to and from an agent that is a program, while it runs: each is journaled in the step that takes it in or sends it."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.agent.entries import Exchanged, encode_entry
from swarm.errors import MessageRefused, ToolError
from swarm.mailbox import Message, check_body, render_mail
from swarm.runtime.approvals import judge_call
from swarm.runtime.segment import Segment
from swarm.store.values import OutgoingMessage
from swarm.tools.messages import SEND_MESSAGE

DEFAULT_SECONDS = 1_800.0
_MARGIN_SECONDS = 60.0
"""Before a process that is taken for hung is killed."""


class Exchanging:
    """The messages of one running program."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self._journal, self._store = segment, segment.journal, segment.store
        wanted = segment.spec.definition.timeout_seconds or DEFAULT_SECONDS
        self.limit_seconds = max(1.0, min(wanted, segment.settings.hard_limit_seconds - _MARGIN_SECONDS))

    def receive(self) -> Sequence[Message]:
        """What has come since. A program that dies before it reads them has had them: its end says that it was interrupted."""
        messages = self._store.mail(self._segment.spec.agent_id, self._journal.life.cursor)
        if messages:
            self._journal.take_in(Exchanged(text=render_mail(messages), cursor=messages[-1].id), messages)
        return messages

    def send(self, to: str, text: str) -> str:
        """Send a message as the agent; returns why it was not sent, or nothing."""
        spec, given = self._segment.spec, {"to": to, "message": text}
        if (verdict := judge_call(self._segment, SEND_MESSAGE.name, given, sandboxed=True)).action != "allow":
            return f"not allowed: {verdict.reason}"
        try:
            receivers = self._store.directory(spec.job_id).find(to, spec.agent_id)
            body = check_body(text)
        except (MessageRefused, ToolError) as error:
            return str(error)
        if len(receivers) != 1:
            return "a program writes to one receiver at a time"
        entry = self._journal.stamp(Exchanged(text=body, to=receivers[0].name))
        letter = OutgoingMessage(
            job=spec.job_id,
            sender=spec.agent_id,
            name=spec.called,
            kind="message",
            body=body,
            to=(receivers[0].id,),
            entry=encode_entry(entry),
        )
        sent = self._store.send_from(
            self._segment.claim, self._journal.next_number, [letter], {receivers[0].id: receivers[0].name}
        )
        self._segment.publish(sent.effect)
        if sent.refusal is not None:
            return str(sent.refusal)
        self._journal.life.apply(entry)
        return ""
