"""Memory in Redis: the pages of shelves, their versions, and every change as one atomic step.

Guarantees: changes of one page happen one after the other and none is lost, whoever writes at once, since what is put in or replaced is
found in the text as it is then; a change with the same cause again returns the same and changes nothing; versions only grow, over all
pages of a shelf; each says which job and agent wrote it.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from swarm.capabilities.memory.stores import MemoryStore
from swarm.core.errors import MemoryRefused
from swarm.store.keyspace import Keyspace

MAX_PAGE_BYTES = 64 * 1024
MAX_MEMORY_STORE_BYTES = 4 * 1024 * 1024
MAX_PAGES = 500
PERSON, IMPORT = "(a person)", "(imported)"
Change = Literal["create", "write", "replace", "insert", "delete", "rename"]


class PageView(BaseModel):
    """One page as it stands, without its text."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Its path below the shelf."""
    size: int
    """Bytes."""
    version: int
    head: str
    """How its text begins."""
    job: str
    agent: str
    """Who changed it last; both are empty for a person …"""
    by: str
    """… and who that is, as people read it."""
    at: float


class Version(BaseModel):
    """What one change left."""

    model_config = ConfigDict(frozen=True)

    version: int
    op: str
    text: str
    job: str
    agent: str
    by: str
    at: float
    new: bool = False
    """There was no page of that name before."""
    source: str = ""
    """What it was called before."""
    taken: str = ""
    """The job that was taken back by it."""


def split_lines(text: str) -> list[str]:
    """The lines of a page, each with its end; nothing but a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class Root(BaseModel):
    """What is left of versions that are not kept any more: the page as it was after the last of them."""

    model_config = ConfigDict(frozen=True)

    text: str
    by: list[tuple[int, str]]
    """Of how many lines each which job brought them in; empty: nobody knows, or a person did."""

    def lines(self) -> list[tuple[str, str]]:
        """Each line with its job."""
        jobs = (job for count, job in self.by for _ in range(count))
        return list(zip(split_lines(self.text), jobs, strict=True))


@dataclass(frozen=True)
class Author:
    """Who makes a change."""

    by: str = PERSON
    job: str = ""
    agent: str = ""
    cause: str = ""
    """Tells a repeat; of a person each call is another one."""


class Memories:
    """All shelves of one swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def memory_stores(self) -> list[MemoryStore]:
        """Those that were ever written, by id."""
        stored = self._keyspace.client.hgetall(self._keyspace.key("memory"))
        return [MemoryStore.model_validate_json(document) for _, document in sorted(stored.items())]

    def pages(self, memory_store: MemoryStore) -> list[PageView]:
        """All pages, by name."""
        stored = self._keyspace.client.hgetall(self._keyspace.key("memory", memory_store.id))
        return [PageView(name=name, **json.loads(record)) for name, record in sorted(stored.items())]

    def read(self, memory_store: MemoryStore, page: str) -> tuple[PageView, str] | None:
        """A page and its text, as they belong together; None if there is no such page."""
        pipeline = self._keyspace.client.pipeline(transaction=True)
        pipeline.hget(self._keyspace.key("memory", memory_store.id), page)
        pipeline.hget(self._keyspace.key("memory", memory_store.id, "texts"), page)
        record, text = pipeline.execute()
        return None if record is None else (PageView(name=page, **json.loads(record)), text or "")

    def logged(self, memory_store: MemoryStore) -> list[str]:
        """The pages that have versions kept, also those that are deleted, by name."""
        return sorted(self._keyspace.client.smembers(self._keyspace.key("memory", memory_store.id, "logged")))

    def versions(self, memory_store: MemoryStore, page: str) -> list[Version]:
        """The page's versions that are kept, the oldest first."""
        return self.past(memory_store, page)[0]

    def past(self, memory_store: MemoryStore, page: str) -> tuple[list[Version], Root | None]:
        """The page's versions that are kept, the oldest first, and what is known of those before."""
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
        """By page, the hash of the file that was imported last."""
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
        """Make one change; `given` is what the step's head names. Returns its `version`, and of `replace` the lines around.

        Raises `MemoryRefused`, whose `code` and `about` are the step's.
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
            **given,
        }
        tells_repeat = {"cause": f"memory/{author.cause}"} if author.cause else {"token": secrets.token_hex(8)}
        request |= tells_repeat
        # Half a surrogate pair has no UTF-8 form.
        texts = [each.encode("utf-8", "replace").decode() for each in (text, old)]
        answer = self._keyspace.run("memory_change", memory_store.id, op, json.dumps(request), *texts)
        if answer[0] != "ok":
            raise MemoryRefused(_explain(answer, page), str(answer[0]), list(answer[1:]))
        changed: dict[str, Any] = json.loads(answer[2])
        return changed

    def purge(self, memory_store: MemoryStore, page: str = "") -> None:
        """Remove a page with all its versions, or without one the whole shelf."""
        self._keyspace.run("memory_purge", memory_store.id, page)


def _explain(answer: list[Any], page: str) -> str:
    match answer[0]:
        case "version":
            return f"the page {page} has version {answer[1]} now (0: it does not exist): somebody changed it; nothing was changed"
        case "changed":
            return f"the page {page} has been changed since it was imported"
        case "same":
            return f"the page {page} was imported before"
        case "exists":
            return f"the page {page} exists already"
        case "missing":
            return f"there is no page {page}"
        case "in the way":
            return f"{answer[1]} is a page, so there can be none below it"
        case "limit" if answer[1] == "page":
            return f"the page {page} would have {answer[2]:,} bytes, more than {MAX_PAGE_BYTES:,}; split it"
        case "limit" if answer[1] == "memory_store":
            return (
                f"this memory would have {answer[2]:,} bytes, more than {MAX_MEMORY_STORE_BYTES:,}; delete pages first"
            )
        case "limit":
            return f"this memory has {MAX_PAGES} pages, and there can be no more; delete some"
        case "refused":
            return "the agent is over, so nothing was changed"
    return f"the page {page} cannot be changed so"
