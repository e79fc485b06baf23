"""A part of an agent's journal as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from swarm.agent.entries import (
    Answered,
    Assistant,
    Compacted,
    Entry,
    Finished,
    Mail,
    ModelFailed,
    Parked,
    Prompt,
    Started,
    ToolFinished,
)
from swarm.api.mcp.views import cut

MAX_CHARACTERS = 30_000
_MAX_TEXT, _MAX_INPUT = 3_000, 1_000


def render_part(entries: Iterable[Entry], after: int) -> tuple[str, int]:
    """The entries that follow number `after`, as many as there is room for, and the number of the last one of them."""
    parts: list[str] = []
    size = 0
    for number, entry in enumerate(entries, after + 1):
        text = _render(entry)
        if parts and size + len(text) > MAX_CHARACTERS:
            break
        after, size = number, size + len(text)
        parts.extend([f"[{number}] {text}"] if text else [])
    return "\n\n".join(parts), after


def _render(entry: Entry) -> str:
    """One entry; empty for what only the runtime has a use for."""
    match entry:
        case Started():
            what = "begins" if entry.kind == "started" else "goes on by another definition"
            return f"{what}: {entry.spec.label} ({entry.spec.model})\n{cut(entry.spec.prompt, _MAX_TEXT)}"
        case Prompt():
            return f"is told ({entry.purpose}): {cut(entry.text, _MAX_TEXT)}"
        case Assistant():
            return "\n".join(filter(None, map(_render_block, entry.content)))
        case ToolFinished():
            return f"{'error' if entry.is_error else 'result'}: {cut(entry.text, _MAX_TEXT)}"
        case Mail():
            return f"reads mail: {cut(entry.text, _MAX_TEXT)}"
        case Parked():
            return f"waits: {entry.condition.describe()}"
        case Answered():
            return f"is answered: {'allowed' if entry.allowed else 'not allowed'}"
        case ModelFailed():
            return f"the model failed: {cut(entry.error, _MAX_TEXT)}"
        case Compacted():
            return "its conversation was cut: a summary took the place of what was before"
        case Finished():
            return f"ends {entry.state}{f': {entry.reason}' if entry.reason else ''}\n{cut(entry.text, _MAX_TEXT)}"
    return ""


def _render_block(block: dict[str, object]) -> str:
    match block.get("type"):
        case "text":
            return f"says: {cut(str(block.get('text', '')), _MAX_TEXT)}"
        case "tool_use":
            return f"calls {block.get('name')}: {cut(json.dumps(block.get('input'), ensure_ascii=False), _MAX_INPUT)}"
    return ""
