"""The tools of programs for rows: read those of a file, and run an agent for each row of a part."""

from __future__ import annotations

import json
from typing import Any

from swarm.core.errors import ConfigurationError, ToolError
from swarm.core.lines import MAX_LINES, read_lines
from swarm.definitions.model import AgentDefinition
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.schemas import integer, string
from swarm.workflows.rows import PART
from swarm.workspace import open_file, resolve_path

MOST_BYTES = 16_000_000
"""Most bytes of a file of rows: they become one entry of the journal."""


def _read_rows(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    name = given["file_path"]
    path = resolve_path(context.workspace, name)
    if not path.is_file():
        raise ToolError(f"{name} is no file")
    opened, status = open_file(context.workspace, path)
    if status.st_size > MOST_BYTES:
        raise ToolError(
            f"{name} has {status.st_size:,} bytes; rows are read of at most {MOST_BYTES:,}. `swarm map` takes larger files"
        )
    with open(opened, encoding="utf-8-sig", errors="replace") as file:
        try:
            rows = read_lines(file.read(), source=name)
        except ConfigurationError as error:
            raise ToolError(str(error)) from error
    if len(rows) > MAX_LINES:
        raise ToolError(f"{name} has {len(rows):,} rows; at most {MAX_LINES:,} are read")
    return ToolResult(text=json.dumps(rows, ensure_ascii=False))


READ_ROWS = Tool(
    name="ReadRows",
    description="Read a file of rows, a line each: JSON objects, or texts.",
    parameters={"file_path": string("The file.")},
    required=["file_path"],
    run=_read_rows,
)


def _order(given: dict[str, Any]) -> tuple[dict[str, Any], AgentDefinition | None]:
    """Return the `Agent` call that runs a part, and its definition."""
    task = {name: given[name] for name in ("rows", "template", "limit", "options")}
    order = {"description": given["description"], "prompt": json.dumps(task, ensure_ascii=False)}
    return {**order, "subagent_type": PART.name}, PART


MAP_ROWS = Tool(
    name="MapRows",
    description="Run an agent for each row of a part.",
    parameters={
        "description": string("The rows, in few words."),
        "rows": {"type": "array", "description": "Objects or texts."},
        "template": string("The prompt; `{name}` stands for a field of the row."),
        "limit": integer("Most agents at once.", minimum=1),
        "options": {"type": "object", "description": "Further parameters of each agent."},
    },
    required=["description", "rows", "template", "limit", "options"],
    orders=_order,
)
