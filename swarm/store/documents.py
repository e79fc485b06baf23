"""Records of one kind each, read from what is stored; of those that are named by their digest a process reads each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from swarm.core.errors import UnreadableRecord

RecordT = TypeVar("RecordT", bound=BaseModel)
_KEPT = 64
_known: dict[str, BaseModel] = {}
"""By digest; nobody changes one."""


def read_record(kind: type[RecordT], document: str, what: str) -> RecordT:
    """What was stored. Raises `UnreadableRecord` if a newer version wrote it."""
    try:
        return kind.model_validate_json(document)
    except ValidationError as error:
        raise UnreadableRecord(f"{what} cannot be read by this version: {str(error).splitlines()[0]}") from error


def read_once(kind: type[RecordT], digest: str, fetch: Callable[[str], str | None], what: str) -> RecordT:
    """The document of that digest; one without is read each time. Raises `UnreadableRecord` as well if there is none."""
    known = _known.get(digest)
    if isinstance(known, kind):
        return known
    found = read_record(kind, fetch(digest) or "", what)
    if digest:
        if len(_known) >= _KEPT:
            _known.clear()
        _known[digest] = found
    return found
