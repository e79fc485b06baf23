"""Messages between a person and a job's agents: sending, the person's mailbox, waiting for a reply.

Guarantees: a message is delivered once, even if the connection breaks while it is sent. A message stays unread for every client
until a person marks it as read.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from pydantic import BaseModel

from swarm.core.errors import JobLost, MailboxFull, MessageRefused, ReceiverEnded, UnknownAgent, UnreadableRecord
from swarm.mailbox import USER, Message, Receiver, check_body, position_of
from swarm.store.documents import read_record
from swarm.store.outage import Outage, follow
from swarm.store.store import Store
from swarm.store.values import DELIVERIES_AT_ONCE, OutgoingMessage, Signals

_LOOK_SECONDS = 0.25
"""Interval of the check whether a reply can still come."""


class Delivery(BaseModel, frozen=True):
    """A delivered message."""

    receivers: dict[str, str]
    """Agent id → the message's id in that agent's mailbox."""
    names: list[str]
    """The receivers, by name or id."""
    left_out: list[str] = []
    """Receivers that a broadcast missed: a full mailbox, or an agent that ended just now."""

    @property
    def id(self) -> str:
        """The message's id; for a broadcast, the latest one."""
        return max(self.receivers.values(), key=position_of)


class Mailbox(BaseModel, frozen=True):
    """One agent's mailbox, oldest first, and the agent's read position."""

    messages: list[Message]
    read_up_to: str

    def is_read(self, message: Message) -> bool:
        """Whether the message has entered the agent's conversation."""
        return message.position <= position_of(self.read_up_to)


class Messages:
    """A person's correspondence with one job."""

    def __init__(
        self, store: Store, job_id: str, tell: Callable[[Signals], None], outage: Outage | None = None
    ) -> None:
        self._store, self.id, self._tell = store, job_id, tell
        self._outage = outage or store.outage(lambda what: None, job_id)

    @property
    def _recalled(self) -> Store:
        """The store, with the job in it if it was in the archive."""
        self._store.archive.recall(self.id)
        return self._store

    def send(self, to: str, text: str, *, reply_to: str = "") -> str:
        """Write to agents of the job as its person: `to` is a name, an id, `root`, or `*` for all live agents.

        Returns the message's id. An ended agent that was not cancelled continues with it; after the job's end only `root` does. Raises
        `MessageRefused` with the reason: no such agent, a full mailbox, a message that is too long.
        """
        return self.deliver(to, text, reply_to=reply_to).id

    def deliver(self, to: str, text: str, *, reply_to: str = "", token: str = "") -> Delivery:
        """Send like `send`, and return who did and did not get the message. Within an hour, a repeat with its token is not sent again."""
        receivers = self.find_receivers(to)
        outgoing = OutgoingMessage(
            job=self.id,
            sender=self.id,
            name=USER,
            kind="message",
            body=check_body(self._addressed(text)),
            reply_to=reply_to,
            live_only=to.strip() == "*",
            token=token or secrets.token_hex(12),
        )
        ids: dict[str, str] = {}
        left_out: list[str] = []
        for first in range(0, len(receivers), DELIVERIES_AT_ONCE):
            part = receivers[first : first + DELIVERIES_AT_ONCE]
            is_last = first + DELIVERIES_AT_ONCE >= len(receivers)
            named = outgoing.model_copy(update={"token": f"{outgoing.token}/{first}"})
            ids |= self._send_part(named, part, left_out, reached=bool(ids) or not is_last)
        return Delivery(receivers=ids, names=[one.name for one in receivers if one.id in ids], left_out=left_out)

    def find_receivers(self, to: str) -> list[Receiver]:
        """Return the agents of an id or a name, or of `*`. Raises `MessageRefused`."""
        try:
            return self._store.mail.directory(self.id).find(to, self.id)
        except MessageRefused:
            return self._recalled.mail.directory(self.id).find(to, self.id)

    def _addressed(self, text: str) -> str:
        if not text.lstrip().startswith("@"):
            return text
        from swarm.definitions.catalogue import Catalogue
        from swarm.definitions.mentions import ask_for_agent

        try:
            return ask_for_agent(
                text, read_record(Catalogue, self._store.jobs.catalogue(self.id), f"the types of {self.id}")
            )
        except UnreadableRecord:
            return text  # A job without types has none that a message could mean.

    def _send_part(
        self, outgoing: OutgoingMessage, receivers: list[Receiver], left_out: list[str], *, reached: bool
    ) -> dict[str, str]:
        """Send to these receivers and return the message's ids by receiver. With `reached`, reaching none is no failure."""
        while receivers:
            try:
                sent = self._store.mail.send(outgoing, receivers)
            except (MailboxFull, ReceiverEnded) as error:
                # One full mailbox, or an agent that ends just now, must not stop a broadcast to the others.
                left = [receiver for receiver in receivers if receiver.name != error.receiver]
                if not outgoing.live_only or len(left) == len(receivers) or not (left or reached):
                    raise
                left_out.append(error.receiver)
                receivers = left
                continue
            self._tell(sent.effect)
            return dict(zip((receiver.id for receiver in receivers), sent.ids, strict=True))
        return {}

    def inbox(self, after: str = "0-0") -> list[Message]:
        """The agents' messages to the job's person after the given id, oldest first."""
        position_of(after)
        return list(self._recalled.mail.all(self.id, after))

    def message(self, message_id: str) -> Message | None:
        """One message of the inbox by the id in an event; None once it has expired."""
        position_of(message_id)
        return self._store.mail.get(self.id, message_id)

    def read_up_to(self) -> str:
        """The id of the last message marked as read; `inbox(read_up_to())` has the unread ones. Raises `UnknownAgent`."""
        return self._store.jobs.get(self.id).read_up_to

    def mark_read(self, up_to: str) -> int:
        """Mark the messages up to this one as read, for every client. Returns the number of unread messages."""
        position_of(up_to)
        return self._store.mail.mark_read(self.id, up_to)

    def wait_reply(
        self, after: str, timeout_seconds: float | None = None, *, sender: str | None = None
    ) -> Message | None:
        """Wait for the first message to the person after that id (of either direction), from `sender` or any agent.

        Returns None if none will come unless the person writes again. This is so if `sender` has read its mail and has ended or has
        nothing left to do (its last text is in its view), or if the job has ended. The call waits for an unavailable Redis. Raises
        `TimeoutError` (the job continues) and `JobLost`.
        """
        position_of(after)
        give_up = None if timeout_seconds is None else time.monotonic() + timeout_seconds

        def ask() -> tuple[bool, list[Message]]:
            wait = _LOOK_SECONDS if give_up is None else min(_LOOK_SECONDS, give_up - time.monotonic())
            try:
                # Ask first: a message written before the end is found below.
                return self._will_stay_silent(sender), self._store.mail.wait(self.id, after, wait)
            except UnknownAgent as error:
                raise JobLost(self.id) from error

        for answer in follow(self._outage, ask, _LOOK_SECONDS):
            silent, found = answer or (False, [])
            for message in found:
                after = message.id
                if sender in (None, message.sender):
                    return message
            if not found and silent:
                return None
            if give_up is not None and time.monotonic() >= give_up:
                raise TimeoutError(f"no agent of {self.id} has written within {timeout_seconds:g} s; the job continues")
        return None

    def _will_stay_silent(self, sender: str | None) -> bool:
        if sender is None:
            return self._store.jobs.get(self.id).ended
        [record] = self._store.agents.find([sender])
        return record is None or record.ended or (record.idle and record.unread == 0)
