"""Serve the fleet's tools over stdio, and over streamable HTTP to clients with a key of the HTTP API."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from pydantic_core import to_jsonable_python
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

import swarm
from swarm.api.keys import check_scope, find_key, refuse
from swarm.api.mcp.tools import TOOLS
from swarm.api.mcp.views import show, shown_type
from swarm.client.failures import NotThere, explain
from swarm.client.operations import Body, Invocation, Operation
from swarm.client.swarm import Swarm
from swarm.store.api_keys import ApiKey, ApiKeys

log = logging.getLogger("swarm.mcp")
PATH = "/mcp"
_KEY = "swarm.key"
_INSTRUCTIONS = """\
A swarm runs tasks on a fleet: each job is a tree of agents, and runs by itself until it ends.
start_job returns a job's id at once. get_job with wait_seconds (at most 50) returns when the job has ended or has a question; otherwise,
call it again. You may do other work meanwhile. A question in a job's state blocks an agent until it is answered with
answer_question; only the person gives permissions. An ended job's answer is in its state; read_transcript shows how
it was found."""
_Context = ServerRequestContext[Any, Any]


class _Gone(Exception):
    """The client no longer waits for the call."""


class FleetServer:
    """One server; `local` is the key of calls over stdio, None if every request brings a key."""

    def __init__(self, fleet: Swarm, folder: Path, *, local: ApiKey | None, ready: Callable[[], None]) -> None:
        self._fleet, self._folder, self._local, self._ready = fleet, folder, local, ready
        self._limiter = anyio.CapacityLimiter(256)
        self.protocol: Server[Any] = Server(
            "swarm",
            title="swarm",
            version=swarm.__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        scopes = self._key(context).scopes
        return types.ListToolsResult(tools=[_describe(tool) for tool in TOOLS if tool.scope in scopes])

    async def _call_tool(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = next((tool for tool in TOOLS if tool.name == params.name), None)
            if tool is None:
                there = ", ".join(tool.name for tool in TOOLS)
                raise NotThere(f"there is no tool {params.name!r}; there are {there}")
            key = self._key(context)
            check_scope(key, tool)
            return await self._run(tool, tool.read({}, params.arguments or {}, "the arguments"), context, key)
        except Exception as error:
            refusal = explain(error)
            if refusal.status == 500:
                log.error("%s failed", params.name, exc_info=error)
            text = types.TextContent(type="text", text=str(refusal))
            return types.CallToolResult(content=[text], is_error=True, _meta=refusal.body)

    async def _run(self, tool: Operation, given: Body, context: _Context, key: ApiKey) -> types.CallToolResult:
        told, over = 0, False

        def tell(what: str) -> None:
            nonlocal told
            if over:
                raise _Gone
            told += 1
            anyio.from_thread.run(context.session.report_progress, told, None, what)

        swarm = self._fleet.within(key.ceiling)
        call = Invocation(swarm, key.name, self._folder, tell=tell, ready=self._ready)

        def run() -> Any:
            return to_jsonable_python(show(swarm, tool.run(call, given)))

        try:
            data = await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            over = True
        text = types.TextContent(type="text", text=json.dumps(data, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=data)

    def _key(self, context: _Context) -> ApiKey:
        if self._local is not None:
            return self._local
        key: ApiKey = context.request.scope[_KEY]  # type: ignore[union-attr]
        return key


def _describe(tool: Operation) -> types.Tool:
    looks = tool.scope == "read"
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.takes.model_json_schema(),
        output_schema=shown_type(tool.returns).model_json_schema(mode="serialization"),
        annotations=types.ToolAnnotations(
            read_only_hint=looks,
            destructive_hint=tool.scope in ("cancel", "answer", "forget"),
            idempotent_hint=looks or tool.scope == "cancel",
            open_world_hint=tool.scope == "submit",
        ),
    )


# -- transports ------------------------------------------------------------------------------------------------


def serve_stdio(server: FleetServer) -> None:
    """Serve the parent process until standard input ends."""

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.protocol.run(reading, writing, server.protocol.create_initialization_options())

    anyio.run(serve)


def make_http(server: FleetServer, fleet: Swarm, host: str) -> ASGIApp:
    """Make the application: `/mcp`, for requests with a key. It has no sessions: one client's requests may go to several servers."""
    return _Guard(server.protocol.streamable_http_app(streamable_http_path=PATH, stateless_http=True, host=host), fleet)


class _Guard:
    """Admits requests with a valid key, and attaches the key."""

    def __init__(self, app: ASGIApp, fleet: Swarm) -> None:
        self._app, self._keys = app, ApiKeys(fleet.store.keyspace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                key = await anyio.to_thread.run_sync(find_key, Headers(scope=scope), self._keys)
            except Exception as error:
                await refuse(explain(error))(scope, receive, send)
                return
            scope[_KEY] = key
        await self._app(scope, receive, send)
