"""`swarm agents --context`: the initial context of each agent type, and its approximate size in tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarm.agent.blocks import BYTES_PER_TOKEN
from swarm.agent.prompts import first_message
from swarm.capabilities.context.instructions import Instructions
from swarm.cli.output import output_console, print_json, print_note
from swarm.cli.tables import Column, Listing
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.prepared import PreparedJob
from swarm.client.swarm import Swarm
from swarm.core.errors import RedisUnavailable
from swarm.core.settings import Settings
from swarm.definitions.model import AgentDefinition
from swarm.permissions.modes import first_mode
from swarm.runtime.request_prefix import request_prefix_of
from swarm.tools.registry import tools_here

_PARTS = ("system", "tools", "instructions", "memory", "surroundings")


def show_context(folder: Path, settings: Settings, *, as_json: bool) -> None:
    """Print one row per type, and the instruction files."""
    # Nothing is run here.
    prepared = prepare_order(Order(prompt="-", workspace=folder, home_workspace=True), settings)
    remembered, why_not = _remember(prepared, settings)
    rows = {
        name: _count(definition, prepared, settings, remembered.get(name, ""))
        for name, definition in sorted(prepared.catalogue.definitions.items())
    }
    found = prepared.instructions or Instructions()
    if as_json:
        files = [source.model_dump() | {"tokens": _tokens(source.given)} for source in found.sources]
        rules = [{"source": rule.source, "globs": rule.globs} for rule in found.rules]
        print_json({"agents": rows, "files": files, "rules": rules, "problems": [str(each) for each in found.problems]})
        return
    Listing[tuple[str, dict[str, Any]]](
        Column("type", lambda row: row[0]),
        *(Column(part, _shower(part), right=True, drop=1 + at) for at, part in enumerate(_PARTS)),
        Column("tokens, about", _shower("tokens"), right=True),
    ).show(rows.items())
    _print_files(found)
    if prepared.instructions is None:
        print_note("instruction files are switched off (SWARM_INSTRUCTION_FILES)")
    if why_not:
        print_note(f"note: memory is not counted: {why_not}")
    for problem in found.problems:
        print_note(f"problem: {problem}")
    if prepared.ignored:
        print_note(f"note: {prepared.ignored}")


def _print_files(found: Instructions) -> None:
    if not found.sources and not found.rules:
        print_note("no instruction files apply here")
        return
    files = [(source.name, source.size, source.given, "first") for source in found.sources]
    for rule in found.rules:
        size = len(rule.text.encode())
        files.append((rule.source, size, size, f"on reading {', '.join(rule.globs)}"))
    output_console().print()
    Listing[tuple[str, int, int, str]](
        Column("file", lambda row: row[0], flexible=True),
        Column("bytes", lambda row: f"{row[1]:,}", right=True, drop=1),
        Column("given", lambda row: f"{row[2]:,}", right=True),
        Column("when", lambda row: row[3]),
    ).show(files)


def _shower(part: str) -> Callable[[tuple[str, dict[str, Any]]], str]:
    return lambda row: f"{row[1][part]:,}"


def _remember(prepared: PreparedJob, settings: Settings) -> tuple[dict[str, str], str]:
    """Memory text by type, and why it could not be read. Redis is not asked if no type has a memory."""
    keeping = [one for one in prepared.catalogue.definitions.values() if one.memory is not None]
    if not keeping:
        return {}, ""
    with Swarm(settings) as swarm:
        try:
            swarm.store.ping()
            now = swarm.store.now()
            told = {
                one.name: "".join(part.tell(swarm.store, one, now) for part in prepared.project.parts.values())
                for one in keeping
            }
        except RedisUnavailable:
            return {}, "Redis does not run (`swarm up` starts it)"
    return told, ""


def _count(definition: AgentDefinition, prepared: PreparedJob, settings: Settings, remembered: str) -> dict[str, Any]:
    """Count tokens by part, with the type as a job's first agent or one level below."""
    placed = {} if definition.may_be_first else {"depth": 1, "parent_id": prepared.spec.agent_id}
    mode = first_mode(definition, prepared.spec.mode)
    spec = prepared.spec.model_copy(update={"definition": definition, "mode": mode, "prompt": "", **placed})
    sandboxed, here = tools_here(settings.sandbox, "")
    opening = request_prefix_of(
        spec,
        prepared.catalogue.for_spawning(),
        sandboxed=sandboxed,
        person_there=True,
        here=here,
        offers=[offer for part in prepared.project.parts.values() if (offer := part.offer()) is not None],
    )
    given = prepared.instructions if definition.instruction_files else None
    counts = {
        "system": _tokens(len(opening.system.encode())),
        "tools": _tokens(len(json.dumps(opening.tools, ensure_ascii=False).encode())),
        "instructions": _tokens(len(given.text.encode()) if given is not None else 0),
        "memory": _tokens(len(remembered.encode())),
        "surroundings": _tokens(len(first_message(spec, now=spec.created_at).encode())),
    }
    return counts | {"tokens": sum(counts.values())}


def _tokens(size: int) -> int:
    return math.ceil(size / BYTES_PER_TOKEN)
