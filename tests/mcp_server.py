"""An MCP server made with the official SDK, for what none of the published ones does: `python -m tests.mcp_server [PORT]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("desk", instructions="Say please.")
for number in range(40):
    server.tool(name=f"drawer_{number}", description=f"Open drawer number {number} of the desk.")(lambda: "empty")


class Size(BaseModel):
    """What a person is asked."""

    copies: int


async def ask_size() -> Elicit[Size]:
    return Elicit("How many copies?", Size)


@server.tool()
def print_copies(size: Annotated[Size, Resolve(ask_size)], name: str) -> str:
    """Print a document; the person says how often."""
    return f"{size.copies} copies of {name}"


@server.tool()
async def stamp(path: str, seconds: float, context: Context) -> str:
    """Append a line to a file, and take a while over it."""
    with Path(path).open("a") as file:
        file.write("stamped\n")
    await context.report_progress(1, 2, "stamping")
    await anyio.sleep(seconds)
    return "stamped"


@server.tool()
def long_list(lines: int) -> str:
    """A long text."""
    return "\n".join(f"line {number}" for number in range(lines))


@server.tool()
def secrets() -> str:
    """The names of all that is in the environment, and what can be seen of the home."""
    return f"{sorted(os.environ)} {os.environ.get('HOME')} {sorted(os.listdir(os.environ['HOME']))}"


@server.tool()
def crash() -> str:
    """End at once."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    server.run()
