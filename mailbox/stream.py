"""Reading a mailbox: the entries after a cursor, in order."""

from __future__ import annotations

from typing import Any

from swarm.mailbox.message import Message

PAGE_MESSAGES = 200
PAGE_BYTES = 400_000
"""How much is taken at a time, so that a full mailbox does not fill a conversation at once."""


def read_mail(
    client: Any, key: str, after: str = "0-0", *, max_messages: int = PAGE_MESSAGES, max_bytes: int = PAGE_BYTES
) -> list[Message]:
    """The first messages after the cursor `after`: at most so many, and at least one if there is any."""
    found: list[Message] = []
    size = 0
    for entry_id, fields in client.xrange(key, f"({after}", "+", count=max_messages):
        size += len(fields["body"].encode())
        if found and size > max_bytes:
            break
        found.append(to_message(entry_id, fields))
    return found


def to_message(entry_id: str, fields: dict[str, str]) -> Message:
    """One entry of a mailbox stream as a message."""
    return Message(
        id=entry_id,
        sender=fields["from"],
        sender_name=fields["name"],
        kind=fields["kind"],
        body=fields["body"],
        reply_to=fields["reply_to"],
        sent_at=int(entry_id.split("-")[0]) / 1000,
    )
