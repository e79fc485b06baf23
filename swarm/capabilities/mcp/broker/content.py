"""Turn a server's messages into plain data for workers, without types of the SDK. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import mcp_types as types

_ERROR_CHARACTERS = 2_000


def describe_tool(tool: types.Tool) -> dict[str, Any]:
    """One tool of a list, as `swarm.capabilities.mcp.pins.PinnedTool` reads it."""
    hints = tool.annotations
    return {
        "name": tool.name,
        "description": tool.description or tool.title or "",
        "schema": tool.input_schema,
        "read_only": bool(hints and hints.read_only_hint),
        "idempotent": bool(hints and hints.idempotent_hint),
        "as_task": bool(tool.execution and tool.execution.task_support == "required"),
    }


def render_result(result: types.CallToolResult) -> dict[str, Any]:
    """The result of a call: its text, its images, whether it is an error."""
    text, images = render_blocks(result.content)
    if not text and not images and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return {"text": text, "images": images, "is_error": result.is_error}


def render_contents(contents: Iterable[Any]) -> dict[str, Any]:
    """Render the contents of a resource."""
    text, images = render_blocks([types.EmbeddedResource(type="resource", resource=content) for content in contents])
    return {"text": text, "images": images, "is_error": False}


def render_prompt(result: types.GetPromptResult) -> dict[str, Any]:
    """The messages that a prompt makes, each under its role."""
    parts, images = [result.description] if result.description else [], []
    for message in result.messages:
        text, shown = render_blocks([message.content])
        parts.append(f"[{message.role}]\n{text}")
        images += shown
    return {"text": "\n\n".join(parts), "images": images, "is_error": False}


def render_blocks(blocks: Iterable[Any]) -> tuple[str, list[dict[str, str]]]:
    """Content as text, and the images of it, for which a line of the text stands."""
    lines: list[str] = []
    images: list[dict[str, str]] = []
    for block in blocks:
        match block:
            case types.TextContent():
                lines.append(block.text)
            case types.ImageContent():
                images.append({"media_type": block.mime_type, "data": block.data})
            case types.AudioContent():
                lines.append(f"[sound, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes: it cannot be heard here]")
            case types.ResourceLink():
                kind = f", {block.mime_type}" if block.mime_type else ""
                about = f": {block.description}" if block.description else ""
                lines.append(f"[resource {block.uri} ({block.name}{kind}){about}]")
            case types.EmbeddedResource():
                _render_resource(block.resource, lines, images)
    return "\n".join(lines), images


def _render_resource(resource: Any, lines: list[str], images: list[dict[str, str]]) -> None:
    kind = resource.mime_type or ""
    if isinstance(resource, types.TextResourceContents):
        lines.append(f"[{resource.uri}]\n{resource.text}")
    elif kind.startswith("image/"):
        images.append({"media_type": kind, "data": resource.blob})
    else:
        lines.append(f"[{resource.uri}: {kind or 'data'}, {len(resource.blob) * 3 // 4:,} bytes that are no text]")


def describe_question(params: Any) -> dict[str, Any]:
    """Describe a server's question to a person."""
    if isinstance(params, types.ElicitRequestURLParams):
        return {"mode": "url", "message": params.message, "url": params.url}
    return {"mode": "form", "message": params.message, "schema": params.requested_schema}


def describe_error(error: BaseException) -> str:
    """Describe an error in one line; of a group, its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{error}"[:_ERROR_CHARACTERS] or type(error).__name__
