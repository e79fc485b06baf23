"""An MCP server that changes its tools while it runs, in few lines: `grow` adds one, `shrink` removes it, `alter` changes it."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}}
tools: dict[str, dict[str, Any]] = {name: {"type": "object"} for name in ("grow", "shrink", "alter")}


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(name: str) -> str:
    """Carry out a call; changes are told before its result, as servers do."""
    if name not in tools:
        raise LookupError(name)
    match name:
        case "grow":
            tools["late"] = {"type": "object"}
        case "shrink":
            tools.pop("late", None)
        case "alter":
            tools["late"] = SCHEMA
        case _:
            return "came late"
    say({"method": "notifications/tools/list_changed"})
    return "changed"


def answer(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Answer one request."""
    match method:
        case "initialize":
            about = {"name": "late", "version": "1"}
            offers = {"tools": {"listChanged": True}}
            return {"protocolVersion": given["protocolVersion"], "capabilities": offers, "serverInfo": about}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": schema} for name, schema in tools.items()]}
        case "tools/call":
            return {"content": [{"type": "text", "text": call(given["name"])}]}
    raise LookupError(method)


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        try:
            say({"id": request["id"], "result": answer(request["method"], request.get("params", {}))})
        except LookupError as error:
            say({"id": request["id"], "error": {"code": -32601, "message": f"unknown: {error}"}})
