"""A job's scratchpad in Redis: pages of text that all its agents can read and write.

Guarantees: every change is one atomic step; repeating a cause returns the first answer and changes nothing; versions only grow, over all
pages of the job, so a known version never means another text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import PadRefused
from swarm.core.settings import PAD_MIB
from swarm.store.keyspace import Keyspace
from swarm.store.values import NOT_LIVE

MAX_PAGE_BYTES = 1024 * 1024
MAX_PAGES = 1_000
MAX_NAME_CHARACTERS = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


class PadPage(BaseModel):
    """The current metadata of one page, without its text."""

    model_config = ConfigDict(frozen=True)

    name: str
    size: int
    """Size in bytes."""
    version: int
    by: str
    """The id of the agent that changed it last."""
    by_name: str
    """That agent's name, or the id again if it has none."""
    at: float


@dataclass(frozen=True)
class Written:
    """A change that was made, now or at the first call with its cause."""

    version: int
    size: int


class Pad:
    """The scratchpad of one job."""

    def __init__(self, keyspace: Keyspace, job_id: str, most_mib: int = PAD_MIB) -> None:
        self._keyspace, self._job_id, self._most_mib = keyspace, job_id, most_mib

    def pages(self) -> list[PadPage]:
        """All pages, by name."""
        stored = self._keyspace.client.hgetall(self._keyspace.key("job", self._job_id, "pad"))
        return [PadPage(name=name, **json.loads(record)) for name, record in sorted(stored.items())]

    def read(self, name: str) -> tuple[PadPage, str]:
        """Read a page and the text of the same version. Raises `PadRefused`."""
        check_page(name)
        pipeline = self._keyspace.client.pipeline(transaction=True)
        pipeline.hget(self._keyspace.key("job", self._job_id, "pad"), name)
        pipeline.get(self._keyspace.key("job", self._job_id, "page", name))
        record, text = pipeline.execute()
        if record is None:
            raise PadRefused(self._missing(name))
        return PadPage(name=name, **json.loads(record)), text or ""

    def write(self, agent_id: str, cause: str, name: str, text: str, *, if_version: int | None = None) -> Written:
        """Replace the page's text. `if_version` is the expected version; 0: the page must not exist.

        Raises `PadRefused`.
        """
        return self._step("write", agent_id, cause, name, text, if_version)

    def append(self, agent_id: str, cause: str, name: str, text: str) -> Written:
        """Add `text` to the end of the page, which is made if needed. Raises `PadRefused`."""
        return self._step("append", agent_id, cause, name, text, None)

    def delete(self, agent_id: str, cause: str, name: str, *, if_version: int | None = None) -> None:
        """Remove the page. Raises `PadRefused`."""
        self._step("delete", agent_id, cause, name, "", if_version)

    def _step(self, operation: str, agent_id: str, cause: str, name: str, text: str, if_version: int | None) -> Written:
        request: dict[str, Any] = {
            "agent": agent_id,
            "cause": f"pad/{cause}",
            "page": check_page(name),
            "max_page": MAX_PAGE_BYTES,
            "max_pad": self._most_mib << 20,
            "max_pages": MAX_PAGES,
        }
        if if_version is not None:
            request["if_version"] = if_version
        # Half a surrogate pair has no UTF-8 form.
        storable = text.encode("utf-8", "replace").decode()
        answer = self._keyspace.run("scratchpad", self._job_id, operation, json.dumps(request), storable)
        match answer[0]:
            case "ok":
                return Written(**json.loads(answer[2]))
            case "version":
                raise PadRefused(_describe_conflict(name, if_version, int(answer[1])))
            case "missing":
                raise PadRefused(self._missing(name))
            case "limit":
                raise PadRefused(_describe_limit(name, answer[1], int(answer[2]), self._most_mib))
            case _:
                raise PadRefused(NOT_LIVE)

    def _missing(self, name: str) -> str:
        names = [page.name for page in self.pages()]
        shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        return (
            f"there is no page {name!r}; there are: {shown}" if names else f"there is no page {name!r}, nor any other"
        )


def check_page(name: str) -> str:
    """Check that a page can have this name, and return it. Raises `PadRefused`."""
    if len(name) > MAX_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise PadRefused(
            f"{name[:80]!r} cannot be a page's name; use something like plan/api.md: parts of letters, digits, '_', '-' and '.' "
            f"that do not begin with '-' or '.', separated by '/', at most {MAX_NAME_CHARACTERS} characters"
        )
    return name


def _describe_conflict(name: str, wanted: int | None, found: int) -> str:
    if found == 0:
        return f"there is no page {name!r} (any more), so it does not have version {wanted}; nothing was changed"
    if wanted == 0:
        return f"the page {name!r} exists already, in version {found}; nothing was changed"
    return f"the page {name!r} has version {found}, not {wanted}; nothing was changed. Read it again"


def _describe_limit(name: str, limit: str, amount: int, most_mib: int) -> str:
    match limit:
        case "page":
            return f"the page {name!r} would have {amount:,} bytes, more than {MAX_PAGE_BYTES:,}; split it into several pages"
        case "pad":
            return f"the scratchpad would have {amount:,} bytes, more than {most_mib << 20:,}; delete pages first"
        case _:
            return f"the scratchpad has {MAX_PAGES:,} pages, the maximum; delete some, or append to one"
