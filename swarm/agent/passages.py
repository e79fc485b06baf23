"""The parts of items: messages, the blocks of a reply, a call's subject. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree  # only the runtime writes the tags, so this is not foreign XML
from xml.etree.ElementTree import Element

from swarm.agent.items import MadeCall, Passage
from swarm.definitions.tools import Kind, row_of


def read_messages(rendered: str) -> list[Passage]:
    """Parse the messages of a `mail` entry; unreadable text stays unchanged."""
    try:
        elements = list(ElementTree.fromstring(f"<mail>{rendered}</mail>"))
    except ElementTree.ParseError:
        return [Passage(title="messages", text=rendered, form="plain")]
    return [_read_message(element) for element in elements]


def _read_message(element: Element) -> Passage:
    if element.tag == "message":
        about = element.get("request_id") or element.get("reply_to")
        kind = str(element.get("kind")).replace("_", " ")
        sender, agent = str(element.get("from")), str(element.get("agent_id"))
        who = sender if agent == sender else f"{sender} ({agent})"
        title = f"{kind} from {who}{f', about {about}' if about else ''}"
        return Passage(title=title, text=element.text or "", agent=agent if agent.startswith("agent-") else "")
    if element.tag == "task-notification":
        parts = {part.tag: part.text or "" for part in element}
        agent = parts.get("task-id", "")
        head = f"notification: {parts.get('summary', '')} ({agent}: {parts.get('status')})"
        rest = [parts[name] for name in ("reason", "result", "usage") if parts.get(name)]
        return Passage(title=head, text="\n".join(rest), agent=agent if agent.startswith("agent-") else "")
    return Passage(title="note from the runtime", text=element.text or "")


def read_block(block: Mapping[str, Any]) -> Passage | MadeCall:
    """Convert a block of a reply."""
    match block.get("type"):
        case "text":
            return Passage(text=str(block.get("text", "")))
        case "thinking":
            return Passage(text=str(block.get("thinking", "")), title="thinking", form="thought")
        case "tool_use":
            given, name = block.get("input"), str(block.get("name"))
            known = given if isinstance(given, dict) else {}
            sends = row_of(name).kind is Kind.SEND
            about = _describe_sending(known) if sends else _describe_call(name, known or given)
            message = str(known.get("message", "")) if sends else ""
            return MadeCall(call=str(block.get("id")), name=name, about=about, input=given, message=message)
        case kind:
            return Passage(text=f"[{kind}]", form="plain")


def _describe_call(name: str, given: Any) -> str:
    subject = row_of(name).subject
    if isinstance(given, dict) and isinstance(given.get(subject), str) and given[subject]:
        return " ".join(given[subject].split())
    if isinstance(given, dict):
        return ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items())
    return json.dumps(given, ensure_ascii=False) if given else ""


def _describe_sending(given: Mapping[str, Any]) -> str:
    kind = str(given.get("kind", "message")).replace("_", " ")
    about = f" about {given['request_id']}" if given.get("request_id") else ""
    verdict = f": {'yes' if given['approve'] else 'no'}" if "approve" in given else ""
    return f"{kind} to {given.get('to', '?')}{about}{verdict}"


def describe_images(blocks: Iterable[Mapping[str, Any]]) -> list[Passage]:
    """Describe each image in a passage."""
    found = [block.get("source") or {} for block in blocks if block.get("type") == "image"]
    sizes = [len(str(source.get("data", ""))) * 3 // 4 for source in found]
    told = [f"an image, {source.get('media_type')}, {size:,} bytes" for source, size in zip(found, sizes, strict=True)]
    return [Passage(text=text, form="plain") for text in told]


def detail(title: str, text: str) -> Passage:
    """Make a passage that is shown only on request."""
    return Passage(title=title, text=text, form="plain", detail=True)


def join(parts: Iterable[Passage | MadeCall], form: str) -> str:
    """Join the texts of one form."""
    texts = (part.text for part in parts if isinstance(part, Passage) and part.form == form)
    return "\n\n".join(text for text in texts if text)


def write(data: Any) -> str:
    """Format data for people."""
    return json.dumps(data, ensure_ascii=False, indent=2)
