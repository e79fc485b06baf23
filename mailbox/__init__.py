"""Mailboxes: messages, receivers, reading, and how a message looks to a model.

Guarantees: messages of one sender reach one receiver in the order they were sent. A message enters the receiver's conversation
exactly once, because only the journal entry that holds it moves the cursor. Unread mail is never trimmed. Sending is a step of
the store (`send.lua`), because it may wake the receiver.
"""

from swarm.mailbox.directory import Receiver, check_name
from swarm.mailbox.markup import TAGS, render_event, render_hook, render_mail, render_note, write_out
from swarm.mailbox.message import (
    MAX_BODY_BYTES,
    MAX_UNREAD,
    PAGE_BYTES,
    USER,
    Kind,
    Message,
    check_body,
    position_of,
    take_page,
    to_message,
)

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_UNREAD",
    "PAGE_BYTES",
    "TAGS",
    "USER",
    "Kind",
    "Message",
    "Receiver",
    "check_body",
    "check_name",
    "position_of",
    "render_event",
    "render_hook",
    "render_mail",
    "render_note",
    "take_page",
    "to_message",
    "write_out",
]
