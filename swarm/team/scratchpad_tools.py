"""The tools of the scratchpad: pages of text that a job's agents share, so that large things travel by name."""

from __future__ import annotations

from typing import Any

from swarm.errors import ToolError
from swarm.tools import Pad, Tool, ToolContext, ToolResult, repeatable_tool
from swarm.tools.read import DEFAULT_LINES, folded_lines, page_lines

_PAGE = {"type": "string", "description": "Name of the page, like plan/api.md."}


def pad_tools() -> dict[str, Tool]:
    """All of them, by name."""
    return {tool.name: tool for tool in (SCRATCHPAD_WRITE, SCRATCHPAD_APPEND, SCRATCHPAD_READ, SCRATCHPAD_LIST)}


def _pad(context: ToolContext) -> Pad:
    if context.pad is None:
        raise ToolError("There is no scratchpad here.")
    return context.pad


def _write(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    page, version = given["page"], given.get("if_version")
    if given.get("delete"):
        if given.get("content"):
            raise ToolError("ScratchpadWrite: a page that is deleted has no `content`")
        return ToolResult(text=_pad(context).delete_page(context.tool_use_id, page, version))
    if "content" not in given:
        raise ToolError("ScratchpadWrite: the parameter 'content' is missing")
    return ToolResult(text=_pad(context).write_page(context.tool_use_id, page, given["content"], version))


def _append(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_pad(context).append_to_page(context.tool_use_id, given["page"], given["content"]))


def _read(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    head, text = _pad(context).read_page(given["page"])
    if not text:
        return ToolResult(text=f"[{head}; it is empty]")
    offset, limit = int(given.get("offset", 1)), int(given.get("limit", DEFAULT_LINES))
    return ToolResult(text=f"[{head}]\n{page_lines(context, folded_lines(text), offset, limit)}")


def _list(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    return ToolResult(text=_pad(context).list_pages(given.get("prefix", "")))


SCRATCHPAD_WRITE = repeatable_tool(
    "ScratchpadWrite",
    "Write a page of the scratchpad, which all agents of the job share: for what others need and a message cannot hold. "
    "The whole page is replaced; at most 1 MiB.",
    {
        "page": _PAGE,
        "content": {"type": "string"},
        "if_version": {
            "type": "integer",
            "minimum": 0,
            "description": "Write only if the page still has this version; 0: only if there is no such page.",
        },
        "delete": {"type": "boolean", "description": "Remove the page instead."},
    },
    ["page"],
    run=_write,
    activity=lambda given: f"ScratchpadWrite {given.get('page', '')}",
)

SCRATCHPAD_APPEND = repeatable_tool(
    "ScratchpadAppend",
    "Add text to the end of a page of the scratchpad; safe when several do it at once. Begin and end lines yourself.",
    {"page": _PAGE, "content": {"type": "string", "minLength": 1}},
    ["page", "content"],
    run=_append,
    activity=lambda given: f"ScratchpadAppend {given.get('page', '')}",
)

SCRATCHPAD_READ = repeatable_tool(
    "ScratchpadRead",
    f"Read a page of the scratchpad with line numbers, {DEFAULT_LINES:,} lines at a time; its version comes first.",
    {
        "page": _PAGE,
        "offset": {"type": "integer", "minimum": 1, "description": "First line to show, counted from 1."},
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show at most."},
    },
    ["page"],
    run=_read,
    activity=lambda given: f"ScratchpadRead {given.get('page', '')}",
)

SCRATCHPAD_LIST = repeatable_tool(
    "ScratchpadList",
    "List the pages of the scratchpad: name, size, version, who wrote last, when.",
    {"prefix": {"type": "string", "description": "Only pages whose name begins so."}},
    [],
    run=_list,
    activity=lambda given: "ScratchpadList",
)
