"""Reads stored records; a process reads each record with a digest only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from swarm.core.errors import UnreadableRecord
from swarm.core.formats import read_document

RecordT = TypeVar("RecordT", bound=BaseModel)
_KEPT = 64
_known: dict[str, BaseModel] = {}
"""Records by digest; never changed."""


def read_record(kind: type[RecordT], document: str, what: str) -> RecordT:
    """Read a stored record, upgraded if it is older. Raises `UnreadableRecord` if a newer version wrote it."""
    try:
        return read_document(kind.model_validate_json, kind.__name__, document)
    except ValueError as error:
        raise UnreadableRecord(f"{what} cannot be read by this version: {str(error).splitlines()[0]}") from error


def read_once(kind: type[RecordT], digest: str, fetch: Callable[[str], str | None], what: str) -> RecordT:
    """Read a document once per digest; without a digest, every time. Raises `UnreadableRecord` also for a missing one."""
    known = _known.get(digest)
    if isinstance(known, kind):
        return known
    found = read_record(kind, fetch(digest) or "", what)
    if digest:
        if len(_known) >= _KEPT:
            _known.clear()
        _known[digest] = found
    return found
