"""The ASGI application: it mounts operations, checks keys, and reads and writes JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from anyio import CapacityLimiter, to_thread
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from swarm.api.keys import check_scope, find_key, refuse
from swarm.api.openapi import describe
from swarm.client.acts import ACTS
from swarm.client.failures import BadRequest, Refusal, explain
from swarm.client.operations import Invocation, Operation
from swarm.client.reads import READS
from swarm.client.swarm import Swarm
from swarm.core.capabilities import capabilities, load
from swarm.core.settings import Settings, load_settings
from swarm.store.api_keys import ApiKeys
from swarm.web.stream import LIVE, Streams

log = logging.getLogger("swarm.api")
PREFIX = "/v1"
MAX_BODY_BYTES = 5 * 1024 * 1024
MOUNTED: list[Operation] = [*ACTS, *READS, *LIVE]
"""All operations, without exception."""
_WAITS = CapacityLimiter(256)
"""Most requests that wait at once; they take no thread from other requests."""
_STREAMS = Streams(256, 64)
Answering = Callable[[Request], Awaitable[Response]]


def make_app(settings: Settings | None = None) -> Starlette:
    """Make the application for the swarm in the settings (default: the environment's). Connects on first use.

    Raises `ConfigurationError` for settings that cannot be used.
    """
    swarm = Swarm(settings or load_settings())
    routes = [Route(PREFIX + one.path, _mount(one, swarm), methods=[one.method], name=one.name) for one in MOUNTED]
    document = json.dumps(describe(MOUNTED, PREFIX)).encode()

    async def openapi(request: Request) -> Response:
        return Response(document, media_type="application/json")

    async def health(request: Request) -> Response:
        await run_in_threadpool(swarm.store.ping)
        return JSONResponse({"ok": True})

    routes += [Route(f"{PREFIX}/openapi.json", _guarded(openapi)), Route(f"{PREFIX}/health", _guarded(health))]
    for capability in capabilities().values():
        routes += load(capability.routes)(swarm) if capability.routes else ()
    return Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})


def _mount(operation: Operation, swarm: Swarm) -> Answering:
    keys = ApiKeys(swarm.store.keyspace)

    async def answer(request: Request) -> Response:
        key = await run_in_threadpool(find_key, request.headers, keys)
        check_scope(key, operation)
        where = "the query" if operation.method == "GET" else "the body"
        given = operation.read(request.path_params, await _read_content(request, operation), where)
        limiter = _WAITS if getattr(given, "wait_seconds", 0) else None
        call = Invocation(swarm.within(key.ceiling), key.name, on_thread=run_in_threadpool)
        found = await to_thread.run_sync(operation.run, call, given, limiter=limiter)
        if operation.streams:
            # A proxy would buffer the events.
            unbuffered = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
            return StreamingResponse(_STREAMS.open(key.name, found), media_type="text/event-stream", headers=unbuffered)
        content = await run_in_threadpool(to_json, found)
        status = operation.status if getattr(found, "new", True) else 200
        headers = _link_next(request, operation.pages, found.next) if operation.pages and found.next else None
        return Response(content, status, headers, media_type="application/json")

    return _guarded(answer)


def _link_next(request: Request, field: str, position: str) -> dict[str, str]:
    """The header that leads to the next part, relative to the request's address: https://www.rfc-editor.org/rfc/rfc8288."""
    return {"Link": f'<?{urlencode({**request.query_params, field: position})}>; rel="next"'}


def _guarded(answer: Answering) -> Answering:
    """Turn every failure into an answer of the common shape."""

    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except Exception as error:
            refusal = explain(error)
            if refusal.status == 500:
                log.error("%s %s failed", request.method, request.url.path, exc_info=error)
            return refuse(refusal)

    return guarded


async def _unrouted(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, what = ("unknown", "nothing is here") if status == 404 else ("bad_request", "not in this way")
    return refuse(Refusal(status, code, f"{request.method} {request.url.path}: {what}; see /v1/openapi.json"))


async def _read_content(request: Request, operation: Operation) -> object:
    """Read a request's values for an operation's fields, except those in the path. Raises `Refusal`."""
    given: Any = dict(request.query_params)
    if operation.method == "POST":
        if given:
            raise BadRequest("the query: an act takes its fields in the body")
        given = await _read_json(request, operation)
    named = {
        name: request.headers[header] for header, name in (operation.headers or {}).items() if header in request.headers
    }
    return {**given, **named} if named and isinstance(given, dict) else given


async def _read_json(request: Request, operation: Operation) -> Any:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY_BYTES:
            raise Refusal(413, "too_large", f"the body has more than {MAX_BODY_BYTES // 1024} KiB")
    if not data and not any(operation.content.values()):
        return {}
    # A page of another site cannot send this media type without a preflight request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "bad_request", "the body must be JSON, with `Content-Type: application/json`")
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
