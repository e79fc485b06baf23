"""An MCP server with three tools that do nothing, in few lines: the oracle starts it, perhaps without the SDK."""

from __future__ import annotations

import json
import sys

TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("look", "drop", "maybe")]


def answer(method: str, given: dict[str, object]) -> dict[str, object]:
    """Answer one request."""
    if method == "initialize":
        about = {"name": "odd", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    return {"content": [{"type": "text", "text": "done"}]}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = answer(request["method"], request.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
