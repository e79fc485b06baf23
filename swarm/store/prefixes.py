"""Keeps what all requests of an agent begin with (system prompt, tool schemas) once per job instead of once per journal.

Agents of the same definition have the same prefix, so a job of thousands needs a handful. A journal's first entry names its
prefix by the hash of its content, and gets it back when it is read: the life that a journal tells does not know of any of this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from swarm.agent.entries import Started
from swarm.errors import JournalError
from swarm.plain import clean

_KEPT = 16


class Prefixes:
    """Takes prefixes out of `started` entries and puts them back; remembers the last few it saw."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def take_out(self, entry: Started) -> tuple[Started, str, str]:
        """The entry as it is stored, the hash of its prefix and the prefix itself, as JSON; a fork has none of its own."""
        if not entry.system and not entry.tools:
            return entry, "", ""
        document = json.dumps(clean({"system": entry.system, "tools": entry.tools}), ensure_ascii=False)
        digest = hashlib.sha256(document.encode()).hexdigest()
        self._remember(digest, document)
        # A worker that knows no hashes must refuse the entry, not run the agent without its tools.
        return entry.model_copy(update={"v": 2, "prefix": digest, "system": "", "tools": []}), digest, document

    def put_back(self, entry: Started, fetch: Callable[[str, str], str | None]) -> Started:
        """The entry as it was written; `fetch` reads a prefix by job and hash. Raises `JournalError` if there is none."""
        if not entry.prefix:
            return entry
        document = self._known.get(entry.prefix) or fetch(entry.spec.job_id, entry.prefix)
        if document is None:
            raise JournalError(
                f"agent {entry.spec.agent_id}: its system prompt and tools ({entry.prefix[:12]}) are missing from job "
                f"{entry.spec.job_id}; the job's keys have been removed in part"
            )
        self._remember(entry.prefix, document)
        return entry.model_copy(update=json.loads(document))

    def _remember(self, digest: str, document: str) -> None:
        if digest not in self._known and len(self._known) >= _KEPT:
            self._known.clear()
        self._known[digest] = document
