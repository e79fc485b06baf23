"""Speaks the protocol: the fleet's tools over stdio, and over streamable HTTP to whoever has a key of the HTTP API."""

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
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import swarm
from swarm.api.endpoint import explain
from swarm.api.mcp.tools import TOOLS, Caller, FleetTool
from swarm.client.swarm import Swarm
from swarm.store.api_keys import ApiKey, ApiKeys
from swarm.web.failures import not_valid

log = logging.getLogger("swarm.mcp")
PATH = "/mcp"
_KEY = "swarm.key"
_INSTRUCTIONS = """\
A swarm runs tasks on a fleet: each job is a tree of agents, and goes on by itself until it ends.
start_job returns a job's id at once. get_job with wait_seconds (at most 50) returns when it has ended or needs somebody; call it again
as long as it has not. Do something else meanwhile if you like. A question in a job's state holds an agent up until it is answered with
answer_question; permissions are for the person to give. The answer of a job that has ended is in its state; read_transcript tells how
it came about."""
_Context = ServerRequestContext[Any, Any]


class _Gone(Exception):
    """Nobody waits for the call any more."""


class FleetServer:
    """One server; `local` is who calls over stdio, None where every request brings a key."""

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
        tool = next((tool for tool in TOOLS if tool.name == params.name), None)
        if tool is None:
            return _refuse(f"there is no tool {params.name!r}; there are {', '.join(tool.name for tool in TOOLS)}")
        key = self._key(context)
        if tool.scope not in key.scopes:
            return _refuse(f"{tool.name} needs the scope {tool.scope!r}, and this caller has {', '.join(key.scopes)}")
        try:
            given = tool.takes.model_validate(params.arguments or {})
        except ValidationError as error:
            return _refuse(str(not_valid(error, "the arguments")))
        return await self._run(tool, given, context, key)

    async def _run(self, tool: FleetTool, given: Any, context: _Context, key: ApiKey) -> types.CallToolResult:
        told, over = 0, False

        def tell(what: str) -> None:
            nonlocal told
            if over:
                raise _Gone
            told += 1
            anyio.from_thread.run(context.session.report_progress, told, None, what)

        caller = Caller(self._fleet.within(key.ceiling), key, self._folder, tell, self._ready)
        try:
            found = await anyio.to_thread.run_sync(
                tool.run, caller, given, abandon_on_cancel=True, limiter=self._limiter
            )
        except Exception as error:
            refusal = explain(error)
            if refusal is None:
                log.error("%s failed", tool.name, exc_info=error)
                return _refuse(f"a fault of the server ({type(error).__name__}); its log says more")
            return _refuse(str(refusal))
        finally:
            over = True
        data = found.model_dump(mode="json", exclude_defaults=False)
        text = types.TextContent(type="text", text=json.dumps(data, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=data)

    def _key(self, context: _Context) -> ApiKey:
        if self._local is not None:
            return self._local
        key: ApiKey = context.request.scope[_KEY]  # type: ignore[union-attr]
        return key


def _describe(tool: FleetTool) -> types.Tool:
    looks = tool.scope == "read"
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.takes.model_json_schema(),
        output_schema=tool.returns.model_json_schema(mode="serialization"),
        annotations=types.ToolAnnotations(
            read_only_hint=looks,
            destructive_hint=tool.scope in ("cancel", "answer"),
            idempotent_hint=looks or tool.scope == "cancel",
            open_world_hint=tool.scope == "submit",
        ),
    )


def _refuse(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)


# -- transports ------------------------------------------------------------------------------------------------


def serve_stdio(server: FleetServer) -> None:
    """Serve whoever started this process, until its standard input ends."""

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.protocol.run(reading, writing, server.protocol.create_initialization_options())

    anyio.run(serve)


def make_http(server: FleetServer, fleet: Swarm, host: str) -> ASGIApp:
    """The application: `/mcp`, for requests with a key. It has no sessions, so requests of one client may go to several servers."""
    return _Guard(server.protocol.streamable_http_app(streamable_http_path=PATH, stateless_http=True, host=host), fleet)


class _Guard:
    """Lets requests pass that bring a key, and says whose they are."""

    def __init__(self, app: ASGIApp, fleet: Swarm) -> None:
        self._app, self._keys = app, ApiKeys(fleet.store.keyspace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
            key = None
            if scheme.lower() == "bearer" and token:
                key = await anyio.to_thread.run_sync(self._keys.find, token.strip())
            if key is None:
                said = {"error": "send `Authorization: Bearer KEY` with a key that `swarm keys add` has made"}
                await JSONResponse(said, 401, headers={"WWW-Authenticate": 'Bearer realm="swarm"'})(
                    scope, receive, send
                )
                return
            scope[_KEY] = key
        await self._app(scope, receive, send)
