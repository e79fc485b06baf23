"""Keeps each request prefix (system prompt, tool schemas) once per swarm instead of once per journal.

Agents of the same definition have the same prefix, so thousands of jobs need few documents. A journal's first entry names its prefix
by the hash of its content. Reading the entry restores the prefix, so a history does not depend on this. Within a process, histories
with the same prefix share the same immutable objects. Instruction files at the start of an agent's first message work the same way:
they travel with the job, and its journal names them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from swarm.agent.entries import Started
from swarm.core.errors import JournalError

_KEPT = 64


class _StoredPrefix(NamedTuple):
    digest: str
    document: str
    system: str
    tools: list[dict[str, Any]]


def digest_of(document: str) -> str:
    """The name of a document."""
    return hashlib.sha256(document.encode()).hexdigest()


class Prefixes:
    """Removes prefixes from `started` entries and restores them; caches some."""

    def __init__(self) -> None:
        self._known: dict[str, _StoredPrefix] = {}
        self._named: dict[tuple[str, int], _StoredPrefix] = {}
        """Cached prefixes by prompt and identity of the tools."""
        self._guidance: dict[str, str] = {}

    def take_out(self, entry: Started) -> tuple[Started, str, str]:
        """The entry as stored, the hash of its prefix, and the prefix as JSON; a fork has no own prefix."""
        if entry.instructions:
            self._remember_guidance(entry.instructions, entry.guidance)
            entry = entry.model_copy(update={"guidance": ""})
        if not entry.system and not entry.tools:
            return entry, "", ""
        named = self._named.get((entry.system, id(entry.tools)))
        if named is None or named.tools is not entry.tools:
            # Clean already: an entry's prefix is made by `request_prefix_of` or was read.
            prefix: dict[str, Any] = {"system": entry.system, "tools": entry.tools}
            document = json.dumps(prefix, ensure_ascii=False)
            named = _StoredPrefix(digest_of(document), document, **prefix)
            self._remember(named)
        stored = entry.model_copy(update={"prefix": named.digest, "system": "", "tools": []})
        return stored, named.digest, named.document

    def put_back(self, entry: Started, fetch: Callable[[str], str | None]) -> Started:
        """Restore the entry; `fetch` reads a document by its hash. Raises `JournalError` if it is missing."""
        if entry.instructions:
            entry = entry.model_copy(update={"guidance": self._find_guidance(entry, fetch)})
        if not entry.prefix:
            return entry
        known = self._known.get(entry.prefix)
        if known is None:
            document = fetch(entry.prefix)
            if document is None:
                raise _missing(entry, "system prompt and tools", entry.prefix)
            known = _StoredPrefix(entry.prefix, document, **json.loads(document))
            self._remember(known)
        return entry.model_copy(update={"system": known.system, "tools": known.tools})

    def _find_guidance(self, entry: Started, fetch: Callable[[str], str | None]) -> str:
        known = self._guidance.get(entry.instructions)
        if known is None:
            document = fetch(entry.instructions)
            if document is None:
                raise _missing(entry, "instruction files", entry.instructions)
            known = str(json.loads(document)["text"])
            self._remember_guidance(entry.instructions, known)
        return known

    def _remember_guidance(self, digest: str, text: str) -> None:
        if len(self._guidance) >= _KEPT:
            self._guidance.clear()
        self._guidance[digest] = text

    def _remember(self, prefix: _StoredPrefix) -> None:
        if len(self._known) >= _KEPT or len(self._named) >= _KEPT:
            self._known.clear()
            self._named.clear()
        self._named[prefix.system, id(prefix.tools)] = prefix
        self._known.setdefault(prefix.digest, prefix)


def _missing(entry: Started, what: str, digest: str) -> JournalError:
    return JournalError(
        f"agent {entry.spec.agent_id}: its {what} ({digest[:12]}) are missing from job {entry.spec.job_id}; "
        "the swarm's keys have been removed in part"
    )
