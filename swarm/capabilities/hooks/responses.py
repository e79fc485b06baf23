"""Describe tools' results to hooks in the shapes that people's programs expect, and read such shapes back. Pure.

A shape holds only facts of the journaled result. Fields about the state before a change are left out.
"""

from __future__ import annotations

import json
import re
from typing import Any

from swarm.definitions.tools import Kind, is_mcp, row_of
from swarm.models import Block

_NUMBERED = re.compile(r" *(\d+)\t(.*)")
_EXIT = re.compile(r"\n?\[exit code (\d+)\]")
_NO_OUTPUT = "(no output)"
_CREATED = "Created "


def describe_response(call: Block, text: str, agent_id: str = "") -> Any:
    """Describe a successful call's result; `agent_id` is the agent that the call started."""
    row, given = row_of(call["name"]), call["input"] if isinstance(call["input"], dict) else {}
    path = given.get(row.subject)
    if is_mcp(row.name):
        return [{"type": "text", "text": text}]
    if row.matching == "command":
        stdout = "" if text == _NO_OUTPUT else text
        return {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    if row.kind is Kind.SPAWN:
        told = {"agentId": agent_id, "prompt": given.get("prompt", ""), "description": given.get("description", "")}
        if given.get("run_in_background"):
            return {"status": "async_launched", **told}
        return {"status": "completed", **told, "content": [{"type": "text", "text": text}]}
    if row.matching == "edited" and isinstance(path, str):
        return {"filePath": path, "success": True, **_describe_change(given, text)}
    if row.inner:
        return _describe_search(row.inner, given, text)
    if row.matching == "read" and isinstance(path, str):
        return _describe_page(path, text)
    if row.matching == "domain":
        return {"url": path, "result": text}
    return {"content": text}


def describe_error(call: Block, text: str) -> str:
    """Describe a failed call: a command's exit code comes first."""
    found = _EXIT.search(text) if row_of(call["name"]).matching == "command" else None
    if found is None:
        return text
    rest = (text[: found.start()] + text[found.end() :]).strip("\n")
    return f"Exit code {found[1]}" + (f"\n{rest}" if rest != _NO_OUTPUT else "")


def render_output(output: Any) -> str | None:
    """Render a replacement for a result, text or any of these shapes, for the model."""
    match output:
        case None | str():
            return output
        case {"stdout": str(out)}:
            return "\n".join(filter(None, [out.rstrip("\n"), str(output.get("stderr") or "")]))
        case {"file": {"content": str(text)}} | {"content": str(text)} | {"result": str(text)}:
            return text
        case {"content": [*blocks]} | [*blocks] if blocks and all(_is_text(block) for block in blocks):
            return "\n".join(block["text"] for block in blocks)
    return json.dumps(output, ensure_ascii=False)


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)


def _describe_change(given: dict[str, Any], text: str) -> dict[str, Any]:
    if "old_string" in given:
        new = {"oldString": given["old_string"], "newString": given.get("new_string", "")}
        return {**new, "replaceAll": bool(given.get("replace_all")), "userModified": False}
    if "content" not in given:
        return {"content": text}
    if text.startswith(_CREATED):
        return {"type": "create", "content": given["content"], "structuredPatch": [], "originalFile": None}
    return {"type": "update", "content": given["content"]}


def _describe_page(path: str, text: str) -> dict[str, Any]:
    numbered = [found for line in text.split("\n") if (found := _NUMBERED.fullmatch(line))]
    content = "\n".join(found[2] for found in numbered) if numbered else ""
    page: dict[str, Any] = {"filePath": path, "content": content, "numLines": len(numbered)}
    if numbered:
        page["startLine"] = int(numbered[0][1])
        if _NUMBERED.fullmatch(text.rpartition("\n")[2]):
            page["totalLines"] = int(numbered[-1][1])
    return {"type": "text", "file": page}


def _describe_search(inner: str, given: dict[str, Any], text: str) -> dict[str, Any]:
    # The last line can be a note in brackets; without a match the text is a sentence about the pattern.
    empty = text.endswith(".") and str(given.get("pattern")) in text and "\n" not in text
    lines = [] if empty else [line for line in text.split("\n") if not line.startswith("[")]
    mode = given.get("output_mode", "files_with_matches")
    if inner == "pattern":
        cut = "\n[" in text
        return {"filenames": lines, "numFiles": len(lines), "truncated": cut}
    if mode == "files_with_matches":
        return {"mode": mode, "filenames": lines, "numFiles": len(lines)}
    return {"mode": mode, "filenames": [], "numFiles": 0, "content": "\n".join(lines), "numLines": len(lines)}
