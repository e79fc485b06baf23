"""A part of an agent's journal as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from swarm.agent.items import Item, as_text, page_of
from swarm.api.mcp.views import cut

MAX_CHARACTERS = 30_000
_MAX_TEXT = 3_000


def render_part(items: Iterable[Item], after: int) -> tuple[str, int]:
    """Render the items after number `after`, as many as fit; return the text and the number of its last item."""
    told = (
        (number, as_text(item, lambda text: cut(text, _MAX_TEXT), inputs=True))
        for number, item in enumerate(items, after + 1)
    )
    page = page_of(told, MAX_CHARACTERS)
    return "\n\n".join(f"[{number}] {text}" for number, text in page if text), page[-1][0] if page else after
