"""Panels of a job's shared resources: board, scratchpad, memory, MCP servers, limits of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from swarm.capabilities.governor.view import read_classes
from swarm.capabilities.mcp.pins import Pin, Pins
from swarm.capabilities.memory.mounts import title_of
from swarm.capabilities.memory.pages import Memories
from swarm.capabilities.memory.revert import take_back
from swarm.capabilities.memory.stores import MemoryStore, Places
from swarm.capabilities.team.teams import Teams
from swarm.client.swarm import Swarm
from swarm.core.errors import MemoryRefused
from swarm.definitions.mcp.servers import JobServers, Server


def read_board(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """The tasks of a job's board with their texts, and its team. Raises `UnknownAgent`."""
    job = swarm.job(job_id)
    texts = job.task_texts()
    tasks = [
        {**task.model_dump(mode="json"), **texts[task.number].model_dump()}
        for task in job.board()
        if task.number in texts
    ]
    found = Teams(swarm.store.keyspace, job_id).find()
    team = None if found is None else {"name": found.name, "description": found.description, "lead": found.lead}
    return {"tasks": tasks, "team": team}


def read_pad(swarm: Swarm, job_id: str, page: str | None) -> dict[str, Any]:
    """The pages of a job's scratchpad, or one page and its text. Raises `UnknownAgent`, `PadRefused`."""
    job = swarm.job(job_id)
    if page is None:
        return {"pages": [each.model_dump(mode="json") for each in job.pad()]}
    view, text = job.page(page)
    return {"page": view.model_dump(mode="json"), "text": text}


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


def read_servers(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Read the servers that travel with a job, and the used servers of its types of agents."""
    pins = Pins(swarm.store.keyspace, job_id).load()
    shown = []
    for server in _configured(swarm, job_id):
        pin = pins.pop(server.key, None)
        about = {"name": server.name, "what": server.describe(), "source": server.source, "transport": server.transport}
        shown.append({**about, "offer": None if pin is None else _show(pin)})
    own = [
        {"name": pin.server, "what": "", "source": "of a type of agent", "transport": "", "offer": _show(pin)}
        for pin in pins.values()
    ]
    return {"servers": [*shown, *own]}


def _configured(swarm: Swarm, job_id: str) -> list[Server]:
    digest = swarm.store.jobs.carried(job_id).get("servers", "")
    try:
        return list(JobServers.model_validate_json(swarm.store.jobs.document(digest) or "").servers) if digest else []
    except ValidationError:
        return []


def _show(pin: Pin) -> dict[str, Any]:
    tools = [tool.model_dump(include={"name", "called", "description", "kind"}) for tool in pin.tools]
    return {"tools": tools, "resources": pin.resources, "prompts": pin.prompts, "left_out": list(pin.left_out)}


def read_limits(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Read each class's buckets and counts, and how many waiting agents belong to the job."""
    classes = []
    for one in read_classes(swarm.store):
        shown = asdict(one)
        waiting = shown.pop("waiting")
        classes.append({**shown, "waiting": sum(waiting.values()), "waiting_here": waiting.get(job_id, 0)})
    return {"classes": classes}
