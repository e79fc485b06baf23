"""Mail in Redis: receivers, reading, taking in, sending.

Guarantees: a message reaches all its receivers once, or none, even if the step is sent again. An agent's message and the result of
its call are one step. Taking mail in and moving the cursor are one step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from swarm.agent.entries import Exchanged, Mail, encode_entry
from swarm.core.errors import MailboxFull, MessageRefused, ReceiverEnded, StaleRequest, UnknownReceiver
from swarm.core.plain import clean
from swarm.mailbox import Message, Receiver, take_page, to_message
from swarm.mailbox.message import PAGE_MESSAGES
from swarm.store.directory import Directory
from swarm.store.keyspace import Keyspace, check_claim, no_job
from swarm.store.streams import StreamStore
from swarm.store.values import Claim, OutgoingMessage, Sent, Signals


class MailStore:
    """The mailboxes of agents and of jobs' people."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def directory(self, job_id: str) -> Directory:
        """The possible receivers in a job."""
        return Directory(self._keyspace, job_id)

    def read(self, owner: str, after: str = "0-0") -> list[Message]:
        """The first messages after a cursor in the mailbox of an agent, or of a job's person."""
        return take_page(StreamStore(self._keyspace).after(("mail", owner), after, PAGE_MESSAGES))

    def all(self, owner: str, after: str = "0-0") -> Iterator[Message]:
        """Yield every message after a cursor, in order."""
        while page := self.read(owner, after):
            yield from page
            after = page[-1].id

    def last(self, owner: str, count: int) -> list[Message]:
        """The last messages, in order."""
        found = self._keyspace.client.xrevrange(self._keyspace.key("mail", owner), count=count)
        return [to_message(*each) for each in reversed(found)]

    def get(self, owner: str, message_id: str) -> Message | None:
        """One message of a mailbox."""
        return next(iter(self.between(owner, message_id, message_id)), None)

    def wait(self, owner: str, after: str, seconds: float) -> list[Message]:
        """The first messages after a cursor; if there are none, wait up to `seconds`."""
        return [to_message(*entry) for entry in StreamStore(self._keyspace).wait(("mail", owner), after, seconds)]

    def between(self, owner: str, first: str, last: str) -> list[Message]:
        """The messages from `first` to `last`, in order."""
        return [
            to_message(*each) for each in self._keyspace.client.xrange(self._keyspace.key("mail", owner), first, last)
        ]

    def requests(self, job_id: str) -> dict[str, str]:
        """The requests between agents of the job, as JSON by their ids."""
        return dict(self._keyspace.client.hgetall(self._keyspace.key("job", job_id, "requests")))

    def mark_read(self, job_id: str, up_to: str) -> int:
        """Mark the job's mailbox as read up to this message; returns the number of unread messages. Raises `UnknownAgent`."""
        answer = self._keyspace.run("mark_read", job_id, up_to)
        if answer[0] == "unknown":
            raise no_job(job_id)
        return int(answer[1])

    def take(self, claim: Claim, number: int, entry: Mail | Exchanged, messages: Sequence[Message]) -> int | None:
        """Append the entry with these messages; returns the number of unread messages, None for a repeat."""
        notices = sum(message.kind == "notification" for message in messages)
        document, counts = encode_entry(entry), (len(messages), notices)
        answer = self._keyspace.run(
            "receive", claim.agent_id, claim.generation, number, document, *counts, entry.cursor
        )
        check_claim(answer, claim)
        return int(answer[1]) if answer[0] == "ok" else None

    def send(self, outgoing: OutgoingMessage, receivers: Sequence[Receiver]) -> Sent:
        """Send one message from outside to all receivers, or to none.

        Raises `UnknownReceiver`, `ReceiverEnded`, `MailboxFull`, `StaleRequest`.
        """
        addressed = outgoing.model_copy(update={"to": [receiver.id for receiver in receivers]})
        sent = self._send([addressed], {receiver.id: receiver.name for receiver in receivers}, None, 0)
        if sent.refusal is not None:
            raise sent.refusal
        return sent

    def send_from(
        self, claim: Claim, number: int, letters: Sequence[OutgoingMessage], names: Mapping[str, str]
    ) -> Sent:
        """Send an agent's messages in order, up to the first that is refused. Each message's `entry` enters the journal in the same step,
        from `number` on; `names` maps the receivers' ids to names.

        Raises `NotOwner` or `AgentCancelled` without changing anything.
        """
        return self._send(letters, names, claim, number)

    def _send(
        self, letters: Sequence[OutgoingMessage], names: Mapping[str, str], claim: Claim | None, number: int
    ) -> Sent:
        step: dict[str, Any] = {}
        if claim is not None:
            step = {"agent": claim.agent_id, "generation": claim.generation, "number": number}
        documents = [clean(outgoing).model_dump_json(by_alias=True) for outgoing in letters]
        answer = self._keyspace.run("send", json.dumps(step), *documents)
        if claim is not None:
            check_claim(answer, claim)
        if answer[0] == "repeat":
            return Sent(Signals(), None, int(answer[1]))
        _, publish, unread, count, ids, *why = answer
        refusal = _refusal(why, letters[count], names) if why else None
        return Sent(Signals(publish=publish), int(unread), int(count), ids, refusal)


def _refusal(why: list[str], outgoing: OutgoingMessage, names: Mapping[str, str]) -> MessageRefused:
    match why:
        case ["unknown", receiver]:
            return UnknownReceiver(f"there is no agent {names[receiver]} in this job")
        case ["ended", receiver, state]:
            return ReceiverEnded(f"{names[receiver]} is {state}: it reads no more messages", names[receiver])
        case ["worn out", receiver]:
            reason = "it has continued after its end as often as the job allows (max_resumes); do not write to it again"
            return ReceiverEnded(f"{names[receiver]} reads no more messages: {reason}", names[receiver])
        case ["full", receiver]:
            return MailboxFull(names[receiver], f"it has {outgoing.max_unread:,} unread messages; try again later")
        case ["full", receiver, whose, most]:
            held = "it has" if whose == "agent" else "all mailboxes of this job have"
            return MailboxFull(
                names[receiver], f"{held} taken the most that fits, {most} MiB; do not write to it again"
            )
        case ["over"]:
            return ReceiverEnded("the job has ended: only its first agent can be written to, which continues it")
        case ["request", code, *about]:
            reason = _REQUEST_REFUSALS[code].format(*about)
            return StaleRequest(f"the request {outgoing.reply_to!r} cannot be answered: {reason}")
    raise AssertionError(f"unknown answer of send.lua: {why}")


_REQUEST_REFUSALS = {
    "missing": "there is no such request",
    "kind": "it is a request for {}",
    "others": "it is between others",
    "answered": "it was answered already: {}",
    "expired": "it has expired",
    "closed": "it was closed already: {}",
}
