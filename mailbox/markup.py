"""How messages look to a model: XML whose tags and attributes only the runtime can write.

Everything from outside (bodies, names, results) is escaped, so no text can end its element, forge a sender or imitate a
notification. In other text by agents (results, pages, tasks) only these tags are escaped: `write_out`.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.sax.saxutils import escape

from swarm.mailbox.message import USER, Message

TAGS = (
    "message",
    "task-notification",
    "runtime-note",
    "event",
    "hook",
    "environment",
    "state-of-things",
    "instructions",
)
"""The runtime's own elements. The last three concern the whole conversation and are rendered elsewhere."""
SPEAKERS = frozenset({USER, "person", "human", "runtime", "system", "assistant", *TAGS})
"""Other speakers in an agent's conversation: the person, under several names, and the runtime. No agent may use these names."""
_IMITATED = re.compile(rf"<(?=[\s/]*(?:{'|'.join(TAGS)})(?![\w-]))", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_QUOTES = {'"': "&quot;", "'": "&apos;", "\n": " ", "\r": " ", "\t": " "}
_MEANING = {
    "ended": "An agent that you started in the background has ended.",
    "idle": "Your teammate has nothing to do and waits for messages or tasks.",
}

_NOTES = {
    "note": "{text}",
    "offer": "Task {task} of the board is free and fits you: {subject}\nTake it with BoardClaim (task_id {task}) before you work on it; "
    "if it is not for you, end your turn.",
    "given": "{by} gave you task {task} of the board: {subject}\nRead it with BoardList (task_id {task}).",
}
"""Texts of the runtime's notes; the notices hold the values."""


def render_mail(messages: Sequence[Message]) -> str:
    """Render messages for the conversation, oldest first."""
    return "\n\n".join(_render_notice(m) if m.kind == "notification" else _render_message(m) for m in messages)


def render_event(key: str, data: str, by: str) -> str:
    """Render an external event as the result of the call that waited for it."""
    return _element("event", data, {"key": key, "from": by})


def render_note(text: str) -> str:
    """Render a note by the runtime."""
    return _element("runtime-note", text)


def render_hook(event: str, source: str, text: str) -> str:
    """Render a hook's output."""
    return _element("hook", text, {"event": event, "from": source})


def write_out(text: str) -> str:
    """Escape the runtime's tags in an agent's text; all else stays, code for instance."""
    return _IMITATED.sub("&lt;", text)


def _render_message(message: Message) -> str:
    attributes = {"from": message.sender_name, "agent_id": message.sender, "kind": message.kind, "id": message.id}
    if message.kind.endswith("_request"):
        attributes["request_id"] = message.reply_to
    elif message.reply_to:
        attributes["reply_to"] = message.reply_to
    return _element("message", message.body, attributes)


def _render_notice(message: Message) -> str:
    notice = _read_notice(message.body)
    note = _NOTES.get(str(notice.get("what")))
    if note is not None:
        return render_note(note.format_map(defaultdict(str, notice)))
    text = str(notice.get("text", "")).strip()
    reason = str(notice.get("reason", ""))
    if isinstance(held := notice.get("tasks"), list):
        reason = f"its claimed work is not complete: task {', '.join(map(str, held))}"
    parts = [
        ("task-id", str(notice.get("agent", message.sender))),
        ("name", str(notice.get("name", ""))),
        ("status", str(notice.get("state", "idle" if notice.get("what") == "idle" else "ended"))),
        ("summary", f"{notice.get('label', '')}: {_MEANING.get(str(notice.get('what')), '')}"),
        ("reason", reason),
        ("result", text or "(It ended without any text.)"),
    ]
    inside = "\n".join(f"<{tag}>{_text(value)}</{tag}>" for tag, value in parts if value)
    if "tokens" in notice:
        inside += (
            f"\n<usage>{_number(notice, 'tokens')} tokens, {_number(notice, 'tools')} tool calls, "
            f"{_number(notice, 'turns')} turns, {_number(notice, 'seconds')} s</usage>"
        )
    return f"<task-notification>\n{inside}\n</task-notification>"


def _read_notice(body: str) -> dict[str, Any]:
    try:
        notice = json.loads(body)
    except (ValueError, RecursionError):
        # A notice that cannot be read must not stop its receiver.
        return {}
    return notice if isinstance(notice, dict) else {}


def _number(notice: dict[str, Any], name: str) -> int:
    value = notice.get(name)
    return round(value) if isinstance(value, int | float) and math.isfinite(value) else 0


def _element(tag: str, text: str, attributes: Mapping[str, str] = MappingProxyType({})) -> str:
    assert tag in TAGS, f"{tag} could be imitated"
    head = " ".join([tag, *(f'{name}="{_attribute(value)}"' for name, value in attributes.items())])
    return f"<{head}>\n{_text(text)}\n</{tag}>"


def _text(value: str) -> str:
    lines = value.replace("\r\n", "\n").replace("\r", "\n")
    return escape(_UNPRINTABLE.sub("\ufffd", lines))


def _attribute(value: str) -> str:
    return escape(_UNPRINTABLE.sub("\ufffd", value), _QUOTES)
