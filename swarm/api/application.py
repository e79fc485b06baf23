"""The ASGI application: routing, keys, checks, and JSON in and out. What an endpoint does stands with the endpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anyio import CapacityLimiter, to_thread
from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from swarm.api.agents import AGENT_ENDPOINTS
from swarm.api.endpoint import Body, Call, Endpoint, Nothing, Refusal, Returned, Wait, explain
from swarm.api.jobs import JOB_ENDPOINTS
from swarm.api.maps import MAP_ENDPOINTS
from swarm.api.openapi import describe
from swarm.api.streaming import STREAM_ENDPOINTS
from swarm.client.swarm import Swarm
from swarm.core.settings import Settings, load_settings
from swarm.store.api_keys import ApiKey, ApiKeys, Scope
from swarm.web.failures import not_valid

log = logging.getLogger("swarm.api")
MAX_BODY_BYTES = 5 * 1024 * 1024
ENDPOINTS: list[Endpoint] = [*JOB_ENDPOINTS, *STREAM_ENDPOINTS, *AGENT_ENDPOINTS, *MAP_ENDPOINTS]
_WAITS = CapacityLimiter(256)
"""So many at once wait for something to happen; they take no thread from those who only ask."""
Answering = Callable[[Request], Awaitable[Response]]


def make_app(settings: Settings | None = None) -> Starlette:
    """The application, of the swarm that the settings name (default: the environment's). Connects on first use.

    Raises `ConfigurationError` for settings that cannot be used.
    """
    swarm = Swarm(settings or load_settings())
    routes = [Route(one.path, _answering(one, swarm), methods=[one.method], name=one.name) for one in ENDPOINTS]
    document = json.dumps(describe(ENDPOINTS)).encode()

    async def openapi(request: Request) -> Response:
        return Response(document, media_type="application/json")

    async def health(request: Request) -> Response:
        await run_in_threadpool(swarm.store.ping)
        return JSONResponse({"ok": True})

    routes += [Route("/v1/openapi.json", _guarded(openapi)), Route("/v1/health", _guarded(health))]
    return Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})


def _answering(endpoint: Endpoint, swarm: Swarm) -> Answering:
    returns: TypeAdapter[Any] = TypeAdapter(endpoint.returns)

    async def answer(request: Request) -> Response:
        key = await run_in_threadpool(_check_key, request.headers, swarm, endpoint.scope)
        call = Call(
            swarm=swarm.within(key.ceiling),
            key=key,
            path=request.path_params,
            query=_read(endpoint.query, dict(request.query_params), "the query"),
            body=_read(endpoint.body, await _json_of(request, endpoint.body), "the body"),
            headers=request.headers,
        )
        found = await to_thread.run_sync(
            endpoint.run, call, limiter=_WAITS if isinstance(call.query, Wait) and call.query.wait else None
        )
        if endpoint.streams:
            # A proxy would keep the events until it has many.
            unbuffered = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
            return StreamingResponse(found, media_type="text/event-stream", headers=unbuffered)
        given = found if isinstance(found, Returned) else Returned(found, endpoint.status)
        content = await run_in_threadpool(returns.dump_json, given.value)
        return Response(content, given.status, media_type="application/json")

    return _guarded(answer)


def _guarded(answer: Answering) -> Answering:
    """Make every failure an answer of the one shape."""

    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except Exception as error:
            refusal = explain(error)
            if refusal is None:
                log.error("%s %s failed", request.method, request.url.path, exc_info=error)
                refusal = Refusal(500, "failed", f"a fault of the server ({type(error).__name__}); its log says more")
            return _refused(refusal)

    return guarded


def _refused(refusal: Refusal) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="swarm"'} if refusal.status == 401 else None
    return JSONResponse(refusal.failure.model_dump(), refusal.status, headers=headers)


async def _unrouted(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, what = ("unknown", "nothing is here") if status == 404 else ("bad_request", "not in this way")
    return _refused(Refusal(status, code, f"{request.method} {request.url.path}: {what}; see /v1/openapi.json"))


def _check_key(headers: Mapping[str, str], swarm: Swarm, scope: Scope) -> ApiKey:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = ApiKeys(swarm.store.keyspace).find(token.strip()) if scheme.lower() == "bearer" and token else None
    if key is None:
        raise Refusal(401, "unauthorized", "send `Authorization: Bearer KEY` with a key that `swarm keys add` has made")
    if scope not in key.scopes:
        raise Refusal(
            403, "forbidden", f"the key {key.name!r} has not the scope {scope!r}, but {', '.join(key.scopes)}"
        )
    return key


async def _json_of(request: Request, model: type[Body]) -> Any:
    if model is Nothing:
        return {}
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY_BYTES:
            raise Refusal(413, "too_large", f"the body has more than {MAX_BODY_BYTES // 1024} KiB")
    if not data and not any(field.is_required() for field in model.model_fields.values()):
        return {}
    # What a page of another site can send without being asked is no JSON by name.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "bad_request", "the body must be JSON, with `Content-Type: application/json`")
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "bad_request", f"the body is no JSON: {error}") from error


def _read(model: type[Body], given: Any, where: str) -> Body:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise not_valid(error, where) from error
