"""Memory in Redis: the pages of memory stores, their versions, and each change as one atomic step.

Guarantees:

- Concurrent changes of a page happen one after the other and none is lost: insertions and replacements use the current text.
- A change repeated with the same cause returns the same and changes nothing.
- Versions grow over all pages of a memory store; each names the job and agent that wrote it.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import MemoryRefused
from swarm.core.settings import MEMORY_MIB
from swarm.definitions.memory_stores import MemoryStore
from swarm.store.keyspace import Keyspace

MAX_PAGE_BYTES = 64 * 1024
MAX_MEMORY_STORE_BYTES = 4 * 1024 * 1024
MAX_PAGES = 500
PERSON, IMPORT = "(a person)", "(imported)"
Change = Literal["create", "write", "replace", "insert", "delete", "rename"]


class PageView(BaseModel):
    """A page's current metadata, without its text."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The page's path in its memory store."""
    size: int
    """Bytes."""
    version: int
    head: str
    """The beginning of its text."""
    job: str
    agent: str
    """The author's agent of the last change; this and `job` are empty for a person."""
    by: str
    """The author's name for readers."""
    at: float


class Version(BaseModel):
    """The page after one change."""

    model_config = ConfigDict(frozen=True)

    version: int
    op: str
    text: str
    job: str
    agent: str
    by: str
    at: float
    new: bool = False
    """Whether the change created the page."""
    source: str = ""
    """The page's former name, after a rename."""
    taken: str = ""
    """The job that this change reverted."""


def split_lines(text: str) -> list[str]:
    """Split a page into lines with their ends; only a line feed ends a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class Root(BaseModel):
    """The remainder of dropped versions: the page after the last of them."""

    model_config = ConfigDict(frozen=True)

    text: str
    by: list[tuple[int, str]]
    """Number of lines and the job that added them; empty if unknown or a person."""

    def lines(self) -> list[tuple[str, str]]:
        """Return each line with its job."""
        jobs = (job for count, job in self.by for _ in range(count))
        return list(zip(split_lines(self.text), jobs, strict=True))


@dataclass(frozen=True)
class Author:
    """The author of a change."""

    by: str = PERSON
    job: str = ""
    agent: str = ""
    cause: str = ""
    """The idempotency key; empty for a person, whose calls are all different."""


class Memories:
    """All memory stores of one swarm."""

    def __init__(self, keyspace: Keyspace, most_mib: int = MEMORY_MIB) -> None:
        self._keyspace, self._most_mib = keyspace, most_mib

    def memory_stores(self) -> list[MemoryStore]:
        """All memory stores that were ever written, by id."""
        stored = self._keyspace.client.hgetall(self._keyspace.key("memory"))
        return [MemoryStore.model_validate_json(document) for _, document in sorted(stored.items())]

    def pages(self, memory_store: MemoryStore) -> list[PageView]:
        """All pages, by name."""
        stored = self._keyspace.client.hgetall(self._keyspace.key("memory", memory_store.id))
        return [PageView(name=name, **json.loads(record)) for name, record in sorted(stored.items())]

    def read(self, memory_store: MemoryStore, page: str) -> tuple[PageView, str] | None:
        """Read a page and the text of the same version; None if there is no such page."""
        pipeline = self._keyspace.client.pipeline(transaction=True)
        pipeline.hget(self._keyspace.key("memory", memory_store.id), page)
        pipeline.hget(self._keyspace.key("memory", memory_store.id, "texts"), page)
        record, text = pipeline.execute()
        return None if record is None else (PageView(name=page, **json.loads(record)), text or "")

    def logged(self, memory_store: MemoryStore) -> list[str]:
        """Names of pages with kept versions, including deleted pages."""
        return sorted(self._keyspace.client.smembers(self._keyspace.key("memory", memory_store.id, "logged")))

    def versions(self, memory_store: MemoryStore, page: str) -> list[Version]:
        """The page's kept versions, the oldest first."""
        return self.past(memory_store, page)[0]

    def past(self, memory_store: MemoryStore, page: str) -> tuple[list[Version], Root | None]:
        """The page's kept versions, the oldest first, and the remainder of older ones."""
        pipeline = self._keyspace.client.pipeline(transaction=True)
        pipeline.xrange(self._keyspace.key("memory", memory_store.id, f"log:{page}"))
        pipeline.hget(self._keyspace.key("memory", memory_store.id, "roots"), page)
        rows, root = pipeline.execute()
        versions = [
            Version(version=int(entry_id.split("-")[0]), source=fields.pop("from", ""), **fields)
            for entry_id, fields in rows
        ]
        return versions, None if root is None else Root.model_validate_json(root)

    def imported(self, memory_store: MemoryStore) -> dict[str, str]:
        """The hash of the last imported file, by page."""
        return dict(self._keyspace.client.hgetall(self._keyspace.key("memory", memory_store.id, "imported")))

    def change(
        self,
        memory_store: MemoryStore,
        op: Change,
        page: str,
        author: Author,
        *,
        text: str = "",
        old: str = "",
        **given: Any,
    ) -> dict[str, Any]:
        """Make one change; `given` are the fields that the step's head lists.

        Returns its `version`, and for `replace` the lines around. Raises `MemoryRefused` with the step's `code` and `about`.
        """
        request: dict[str, Any] = {
            "page": page,
            "job": author.job,
            "agent": author.agent,
            "by": author.by,
            "about": memory_store.model_dump_json(),
            "max_page": MAX_PAGE_BYTES,
            "max_memory_store": MAX_MEMORY_STORE_BYTES,
            "max_pages": MAX_PAGES,
            "max_kept": self._most_mib << 20,
            **given,
        }
        tells_repeat = {"cause": f"memory/{author.cause}"} if author.cause else {"token": secrets.token_hex(8)}
        request |= tells_repeat
        # Half a surrogate pair has no UTF-8 form.
        texts = [each.encode("utf-8", "replace").decode() for each in (text, old)]
        answer = self._keyspace.run("memory_change", memory_store.id, op, json.dumps(request), *texts)
        if answer[0] != "ok":
            raise MemoryRefused(_explain(answer, page, self._most_mib), str(answer[0]), list(answer[1:]))
        changed: dict[str, Any] = json.loads(answer[2])
        return changed

    def purge(self, memory_store: MemoryStore, page: str = "") -> None:
        """Remove a page with all its versions, or, without a page, the whole memory store."""
        self._keyspace.run("memory_purge", memory_store.id, page)


def _explain(answer: list[Any], page: str, most_mib: int) -> str:
    match answer[0]:
        case "version":
            return f"the page {page} has version {answer[1]} now (0: it does not exist); nothing was changed. Read it again"
        case "changed":
            return f"the page {page} has been changed since it was imported"
        case "same":
            return f"the page {page} was imported before"
        case "exists":
            return f"the page {page} exists already"
        case "missing":
            return f"there is no page {page}"
        case "in the way":
            return f"{answer[1]} is a page, so it cannot hold other pages"
        case "limit" if answer[1] == "page":
            return f"the page {page} would have {answer[2]:,} bytes, more than {MAX_PAGE_BYTES:,}; split it"
        case "limit" if answer[1] == "memory_store":
            return (
                f"this memory would have {answer[2]:,} bytes, more than {MAX_MEMORY_STORE_BYTES:,}; delete pages first"
            )
        case "limit" if answer[1] == "kept":
            return (
                f"this memory would have {answer[2]:,} bytes with the versions of its pages, more than {most_mib << 20:,}; "
                "delete pages first"
            )
        case "limit":
            return f"this memory has {MAX_PAGES} pages, the maximum; delete some"
        case "refused":
            return "the agent has ended, so nothing was changed"
    return f"the page {page} cannot be changed this way"
