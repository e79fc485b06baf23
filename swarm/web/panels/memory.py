"""The panel of memory: the shelves that agents of a job may have, their pages, and what the job wrote on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from swarm.client import Swarm
from swarm.errors import MemoryRefused
from swarm.memory.index import title_of
from swarm.memory.pages import Memories
from swarm.memory.shelves import Places, Shelf
from swarm.memory.taking_back import take_back


def read_memory(swarm: Swarm, job_id: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The pages of the job's shelves, or one page with its text and versions. Raises `MemoryRefused`."""
    memories, shelves = Memories(swarm.store), _shelves(swarm, job_id)
    if "page" not in query:
        return {"shelves": [_show_shelf(memories, shelf) for shelf in shelves], "job": job_id}
    shelf = next((shelf for shelf in shelves if shelf.id == query.get("shelf")), None)
    found = None if shelf is None else memories.read(shelf, query["page"])
    if shelf is None or found is None:
        raise MemoryRefused(f"there is no page {query['page']!r}", "missing")
    versions = [
        version.model_dump(exclude={"text"}, mode="json") for version in memories.versions(shelf, query["page"])
    ]
    return {"page": found[0].model_dump(mode="json"), "shelf": shelf.id, "text": found[1], "versions": versions}


def forget_job(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Take back what the job wrote."""
    return {"pages": [f"{shelf.id} {page}" for shelf, page in take_back(Memories(swarm.store), job_id)]}


def _shelves(swarm: Swarm, job_id: str) -> list[Shelf]:
    try:
        places = Places.model_validate_json(
            swarm.store.client.hget(swarm.store.key("job", job_id), "memory") or ""
        ).model_dump()
    except ValidationError:
        return []
    about = {"user": places["owner"], "local": places["workspace"]}
    known = Memories(swarm.store).shelves()
    return [shelf for shelf in known if shelf.about == about.get(shelf.scope, places["project"])]


def _show_shelf(memories: Memories, shelf: Shelf) -> dict[str, Any]:
    pages = [
        {**page.model_dump(mode="json", exclude={"head"}), "title": title_of(page.head)}
        for page in memories.pages(shelf)
    ]
    return {"id": shelf.id, "scope": shelf.scope, "type": shelf.type, "pages": pages}
