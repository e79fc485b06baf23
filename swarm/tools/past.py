"""An agent's past as text, for the agent itself: what its conversation does not hold any more is still in its journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from swarm.agent.blocks import text_of
from swarm.agent.entries import Assistant, Compacted, Entry, Finished, Mail, Prompt, ToolFinished

PAST = "past"
"""The handle `output:past` under which it is read by page."""


def tell_past(entries: Iterable[Entry]) -> str:
    """A journal as a conversation, oldest first."""
    return "\n\n".join(part for entry in entries for part in _tell(entry))


def _tell(entry: Entry) -> Iterator[str]:
    match entry:
        case Prompt():
            yield f"── {entry.purpose.replace('_', ' ')}\n{entry.text}"
        case Mail() if entry.text:
            yield f"── messages\n{entry.text}"
        case Assistant():
            if text := text_of(entry.content):
                yield f"── you\n{text}"
            for block in entry.content:
                if block.get("type") == "tool_use":
                    yield f"→ {block['name']} {block['id']} {json.dumps(block.get('input'), ensure_ascii=False)}"
        case ToolFinished():
            yield f"← {'error' if entry.is_error else 'result'} of {entry.tool_use_id}\n{entry.text}"
        case Compacted():
            yield f"── a summary took the place of what stands above\n{entry.summary}"
        case Finished():
            yield f"── end of a run: {entry.state}\n{entry.text}"
