"""A message: an entry of a mailbox stream, with the sender that the runtime wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import BadMessageId, MessageTooLong

MAX_BODY_BYTES = 64 * 1024
"""Largest body of one message, in bytes of UTF-8. Larger content travels by name: a file, or a page of the scratchpad."""
MAX_UNREAD = 1_000
"""Most unread messages of one mailbox; beyond, sending is an error. Notices by the runtime do not count."""
USER = "user"
"""The name of the job's person."""
PAGE_MESSAGES = 200
PAGE_BYTES = 400_000
"""Bytes taken in at a time, so that a full mailbox does not fill a conversation at once."""

_MESSAGE_ID = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?")

Kind = Literal[
    "message", "task", "notification", "shutdown_request", "shutdown_response", "plan_request", "plan_response"
]
"""`task`: more work from the parent. `notification`: a notice by the runtime, its body is JSON. A `*_response` answers the request
that its `reply_to` names."""


class Message(BaseModel):
    """One message as its receiver reads it."""

    model_config = ConfigDict(frozen=True)

    id: str
    """Place in the mailbox: the stream's entry id."""
    sender: str
    """An agent id, or the job's id for its person."""
    sender_name: str
    """The sender's name, or its id when it has none."""
    kind: Kind
    body: str
    reply_to: str = ""
    """The request that the message opens or answers, or the message that it answers."""
    sent_at: float
    """Unix seconds, by the server's clock."""

    @property
    def position(self) -> tuple[int, int]:
        """The message id in comparable form."""
        return position_of(self.id)


def position_of(message_id: str) -> tuple[int, int]:
    """Parse a message id or cursor for comparison. Raises `BadMessageId`."""
    if not _MESSAGE_ID.fullmatch(message_id):
        raise BadMessageId(f"{message_id[:80]!r} is not a message id; use one like 1700000000000-0")
    milliseconds, _, sequence = message_id.partition("-")
    return int(milliseconds), int(sequence or 0)


def check_body(body: str) -> str:
    """Return the body in storable form. Raises `MessageTooLong`."""
    # Half a surrogate pair has no UTF-8 form.
    data = body.encode("utf-8", "replace")
    if len(data) > MAX_BODY_BYTES:
        raise MessageTooLong(
            f"the message has {len(data):,} bytes, more than {MAX_BODY_BYTES:,}; "
            "put it into a file or a page of the scratchpad and send its name"
        )
    return data.decode()


def take_page(entries: Iterable[tuple[str, dict[str, str]]]) -> list[Message]:
    """Read a mailbox stream's first entries, up to a page, and at least one if there is any."""
    found: list[Message] = []
    size = 0
    for entry_id, fields in entries:
        size += len(fields["body"].encode())
        if found and size > PAGE_BYTES:
            break
        found.append(to_message(entry_id, fields))
    return found


def to_message(entry_id: str, fields: dict[str, str]) -> Message:
    """Read one entry of a mailbox stream."""
    return Message(
        id=entry_id,
        sender=fields["from"],
        sender_name=fields["name"],
        kind=fields["kind"],
        body=fields["body"],
        reply_to=fields["reply_to"],
        sent_at=int(entry_id.split("-")[0]) / 1000,
    )
