"""The tools of the scratchpad: pages of text that a job's agents share, to pass large texts by name."""

from __future__ import annotations

from typing import Any

from swarm.capabilities.team.scratchpad import Pad, Written
from swarm.core.errors import ToolError
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.read import DEFAULT_LINES, folded_lines, page_lines
from swarm.tools.schemas import boolean, integer, string

_PAGE = string("Name of the page, like plan/api.md.")


def _pad(context: ToolContext) -> Pad:
    return Pad(context.store.keyspace, context.job_id, context.most.pad)


def _write(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    page, version = given["page"], given.get("if_version")
    by = (context.agent_id, context.cause)
    if given.get("delete"):
        if given.get("content"):
            raise ToolError("ScratchpadWrite: a page that is deleted has no `content`")
        _pad(context).delete(*by, page, if_version=version)
        return ToolResult(text=f"Deleted: {page}.")
    if "content" not in given:
        raise ToolError("ScratchpadWrite: the parameter 'content' is missing")
    return _tell("Written", page, _pad(context).write(*by, page, given["content"], if_version=version))


def _append(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    page = given["page"]
    return _tell("Added", page, _pad(context).append(context.agent_id, context.cause, page, given["content"]))


def _tell(done: str, page: str, written: Written) -> ToolResult:
    return ToolResult(text=f"{done}: {page} has version {written.version} and {written.size:,} bytes now.")


def _read(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    view, text = _pad(context).read(given["page"])
    head = f"{view.name}, version {view.version}, {view.size:,} bytes, last changed by {view.by_name}"
    if not text:
        return ToolResult(text=f"[{head}; it is empty]")
    offset, limit = int(given.get("offset", 1)), int(given.get("limit", DEFAULT_LINES))
    return ToolResult(text=f"[{head}]\n{page_lines(context, folded_lines(text), offset, limit)}")


def _list(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    prefix = given.get("prefix", "")
    pages = [page for page in _pad(context).pages() if page.name.startswith(prefix)]
    if not pages:
        none = f"There is no page whose name begins with {prefix!r}." if prefix else "The scratchpad is empty."
        return ToolResult(text=none)
    now = context.store.now()
    lines = (
        f"- {page.name}: {page.size:,} bytes, version {page.version}, by {page.by_name}, {max(0.0, now - page.at):.0f} s ago"
        for page in pages
    )
    return ToolResult(text="\n".join(lines))


SCRATCHPAD_WRITE = Tool(
    "ScratchpadWrite",
    "Write a page of the scratchpad, which all agents of the job share: for texts that others need and that are too long for a message. "
    "The whole page is replaced; at most 1 MiB.",
    {
        "page": _PAGE,
        "content": {"type": "string"},
        "if_version": integer(
            "Write only if the page still has this version; 0: only if there is no such page.", minimum=0
        ),
        "delete": boolean("Remove the page instead."),
    },
    ["page"],
    run=_write,
)

SCRATCHPAD_APPEND = Tool(
    "ScratchpadAppend",
    "Add text to the end of a page of the scratchpad; safe when several do it at once. Begin and end lines yourself.",
    {"page": _PAGE, "content": {"type": "string", "minLength": 1}},
    ["page", "content"],
    run=_append,
)

SCRATCHPAD_READ = Tool(
    "ScratchpadRead",
    f"Read a page of the scratchpad with line numbers, {DEFAULT_LINES:,} lines at a time; its version comes first.",
    {
        "page": _PAGE,
        "offset": integer("First line to show, counted from 1.", minimum=1),
        "limit": integer("How many lines to show at most.", minimum=1),
    },
    ["page"],
    run=_read,
)

SCRATCHPAD_LIST = Tool(
    "ScratchpadList",
    "List the pages of the scratchpad: name, size, version, who wrote last, when.",
    {"prefix": string("Only pages whose names begin with this.")},
    run=_list,
)
