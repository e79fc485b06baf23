"""The panel of the memory of a job's agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from swarm.capabilities.memory.mounts import title_of
from swarm.capabilities.memory.pages import Memories
from swarm.capabilities.memory.revert import take_back
from swarm.client.swarm import Swarm
from swarm.core.errors import MemoryRefused
from swarm.definitions.memory_stores import MemoryStore, Places
from swarm.web.panels.panel import Panel


def read_memory(swarm: Swarm, job_id: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Read the pages of the job's memory stores, or one page with its text and versions. Raises `MemoryRefused`."""
    memories, memory_stores = Memories(swarm.store.keyspace), _memory_stores(swarm, job_id)
    if "page" not in query:
        return {
            "memory_stores": [_show_memory_store(memories, memory_store) for memory_store in memory_stores],
            "job": job_id,
        }
    memory_store = next(
        (memory_store for memory_store in memory_stores if memory_store.id == query.get("memory_store")), None
    )
    found = None if memory_store is None else memories.read(memory_store, query["page"])
    if memory_store is None or found is None:
        raise MemoryRefused(f"there is no page {query['page']!r}", "missing")
    versions = [
        version.model_dump(exclude={"text"}, mode="json") for version in memories.versions(memory_store, query["page"])
    ]
    return {
        "page": found[0].model_dump(mode="json"),
        "memory_store": memory_store.id,
        "text": found[1],
        "versions": versions,
    }


def forget_job(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Take back the job's changes to memory."""
    return {
        "pages": [
            f"{memory_store.id} {page}" for memory_store, page in take_back(Memories(swarm.store.keyspace), job_id)
        ]
    }


def _memory_stores(swarm: Swarm, job_id: str) -> list[MemoryStore]:
    try:
        places = Places.model_validate_json(swarm.store.jobs.memory(job_id)).model_dump()
    except ValidationError:
        return []
    about = {"user": places["owner"], "local": places["workspace"]}
    known = Memories(swarm.store.keyspace).memory_stores()
    return [
        memory_store for memory_store in known if memory_store.about == about.get(memory_store.scope, places["project"])
    ]


def _show_memory_store(memories: Memories, memory_store: MemoryStore) -> dict[str, Any]:
    pages = [
        {**page.model_dump(mode="json", exclude={"head"}), "title": title_of(page.head)}
        for page in memories.pages(memory_store)
    ]
    return {"id": memory_store.id, "scope": memory_store.scope, "type": memory_store.type, "pages": pages}


PANELS = (
    Panel(
        "memory",
        "Memory pages",
        lambda asked: read_memory(asked.swarm, asked.job_id, asked.query),
        acts={"forget": lambda asked: forget_job(asked.swarm, asked.job_id)},
        stale_on=frozenset({"memory"}),
    ),
)
