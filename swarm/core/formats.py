"""Reads what other releases wrote: an older format is upgraded here, a newer one is refused with the reason.

A document says its format in `v`; one without it has the first format.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from swarm.core.release import FORMAT

FIRST = 1
"""The format that every worker reads, so nothing has to require it."""
ReadT = TypeVar("ReadT")
Upgrade = Callable[[str, dict[str, Any]], dict[str, Any]]
UPGRADES: dict[int, Upgrade] = {}
"""From each older format the way to the next: a function of a document's name (its model's, or `entry`) and the document."""


class Formatted(BaseModel):
    """A stored document, with the format that it was written in."""

    v: Annotated[int, Field(ge=FORMAT, le=FORMAT)] = FORMAT


class NewerFormat(ValueError):
    """A document has a newer format than this release reads."""

    def __init__(self, written: int) -> None:
        super().__init__(f"it has format {written}, and this release reads up to {FORMAT}: upgrade it")


def read_document(read: Callable[[str | bytes], ReadT], name: str, document: str | bytes) -> ReadT:
    """Read a stored document, upgraded if it is older.

    Raises `NewerFormat`, or `ValidationError` if it is broken; both are a `ValueError`.
    """
    try:
        return read(document)
    except ValidationError:
        # Only what another release wrote is parsed twice.
        known = _parse(document)
        written = known.get("v", FIRST)
        if not known or not isinstance(written, int) or written == FORMAT:
            raise
        if written > FORMAT:
            raise NewerFormat(written) from None
    return read(json.dumps(upgrade(name, known)))


def upgrade(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Bring a document of an older format to today's, one format after the other."""
    for written in range(max(document.get("v", FIRST), FIRST), FORMAT):
        document = UPGRADES[written](name, document) | {"v": written + 1}
    # The first entry of a journal holds its agent's spec, whose format is its own.
    if name == "entry" and isinstance(spec := document.get("spec"), dict):
        document = document | {"spec": upgrade("AgentSpec", spec)}
    return document


def _parse(document: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(document)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
