"""An agent for each row of thousands: parts of the rows are workflows of their own, because one agent has few children.

The program of a part is shipped. Its version is a number of its own, so that a new release continues what an older one began.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from swarm.core.lines import Line
from swarm.definitions.model import AgentDefinition, WorkflowProgram
from swarm.workflows.results import read_task

MOST_DIRECT = 1_000
"""Most rows for which a native program starts the agents itself."""
MOST_ROWS = 250
"""Most rows of one part."""
MOST_CHARACTERS = 400_000
"""Most characters of the rows of one part, as JSON, unless one row has more."""
VERSION = "1"
"""Version of `run_part`. Another order or content of its calls needs another one."""


def part_rows(rows: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the rows in parts, in order."""
    part: list[Line] = []
    size = 0
    for row in rows:
        length = len(json.dumps(row, ensure_ascii=False))
        if part and (len(part) >= MOST_ROWS or size + length > MOST_CHARACTERS):
            yield part
            part, size = [], 0
        part.append(row)
        size += length
    if part:
        yield part


def describe_part(rows: Sequence[Line], template: str, limit: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of the call that runs a part."""
    given = {"rows": list(rows), "template": template, "limit": min(limit, MOST_ROWS), "options": dict(options)}
    return {"description": f"{len(rows):,} rows", **given}


async def run_part(flow: Any, rows: list[Any], template: str, limit: int, options: dict[str, Any]) -> list[Any]:
    """Run an agent for each row of a part, and return the results as data."""
    done = await flow.map(rows, template, limit=limit, **options)
    typed = "result_schema" in options
    return [
        {"ok": True, "value": read_task(one.value) if typed else one.value, "error": ""}
        if one.ok
        else {"ok": False, "value": None, "error": str(one.error)}
        for one in done
    ]


PART = AgentDefinition(
    name="map-rows",
    description="Runs an agent for each row of a part.",
    prompt="",
    workflow=WorkflowProgram(language="native", home=f"{__name__}:run_part", digest=VERSION),
    permission_mode="acceptEdits",
)
"""The type of a part; no catalogue has it."""
