"""A call of an MCP server's tool through the broker, against the protocol's bare SDK; and what a worker pays that makes none."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from mcp import Client, StdioServerParameters

from bench.lives import make_context
from bench.measure import Report, spread
from swarm.capabilities.mcp.broker_client import BrokerClient
from swarm.capabilities.mcp.caller import Access, ServerCaller
from swarm.definitions.mcp.servers import Server
from swarm.tools import ToolContext

CALLS = 300
SERVER, TOOL, GIVEN = str(Path(sys.executable).with_name("mcp-server-time")), "get_current_time", {"timezone": "UTC"}
_UNUSED = """
import os, sys
import swarm.tasks.process, swarm.capabilities.context.restoration, swarm.runtime.messenger, swarm.runtime.side_requests
import swarm.runtime.scratch, swarm.runtime.segment, swarm.tools.web.reach, swarm.tools.images, swarm.store.questions
import swarm.models.catalogue
import gc, psutil
for name in [name for name in sys.modules if name.startswith("swarm.capabilities.mcp.") and name != "swarm.definitions.mcp.servers"]:
    del sys.modules[name]
gc.collect()
before = psutil.Process().memory_full_info().uss
import swarm.capabilities.mcp.step
gc.collect()
assert "mcp" not in sys.modules and "mcp_types" not in sys.modules
print((psutil.Process().memory_full_info().uss - before) / 2**20)
"""


def run(report: Report, chosen: Namespace) -> None:
    """Whole calls as a tool makes them, and the same calls by the SDK, in turns of some."""
    with tempfile.TemporaryDirectory() as folder:
        ours, bare = asyncio.run(_measure(Path(folder).resolve()))
    report.note(f"through the broker {spread(ours, ' ms', 1e3)}")
    report.note(f"the bare SDK {spread(bare, ' ms', 1e3)}")
    more = (statistics.median(ours) - statistics.median(bare)) * 1e3
    report.figure("mcp, what a call takes more", more, " ms", target=5)
    unused = subprocess.run([sys.executable, "-c", _UNUSED], capture_output=True, text=True, check=True)
    report.figure("mcp, memory of a worker that calls none", float(unused.stdout), " MiB", target=1)


async def _measure(folder: Path) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    bare: list[float] = []
    line = BrokerClient(folder, 60)
    calling, context, server = _prepare(folder, line)
    pin = await asyncio.to_thread(calling.find_pin, server, context)
    tool = next(tool for tool in pin.tools if tool.name == TOOL)
    async with Client(StdioServerParameters(command=SERVER)) as client:
        await client.list_tools()
        for number in range(CALLS):
            context.tool_use_id = f"call-{number}"
            began = time.perf_counter()
            result = await client.call_tool(TOOL, GIVEN)
            bare.append(time.perf_counter() - began)
            # On this thread: while it is under way nothing else happens here, as in a worker.
            began = time.perf_counter()
            told = calling.call(server, tool, context, GIVEN)
            ours.append(time.perf_counter() - began)
            assert not result.is_error and not told.is_error
    line.close()
    return ours, bare


def _prepare(folder: Path, line: BrokerClient) -> tuple[ServerCaller, ToolContext, Server]:
    access = Access(line, [], network_off=False, read_only=False, ask_seconds=0, find_login=lambda address: None)
    server = Server(name="clock", transport="stdio", command=SERVER, args=("--local-timezone", "UTC"))
    return ServerCaller(access), make_context(folder), server
