"""Incoming webhooks: `POST /hooks/TRIGGER`. A delivery has no key; its signature shows that the sender knows the trigger's secret."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from swarm.api.keys import refuse
from swarm.capabilities.triggers.model import MAX_EVENT_BYTES, accepts
from swarm.capabilities.triggers.sources import Forged, UnreadableEvent, check_signature, read_event
from swarm.capabilities.triggers.store import Triggers
from swarm.client.failures import BadRequest, Refusal, explain
from swarm.client.swarm import Swarm
from swarm.client.triggers import secret_of, take_event
from swarm.core.errors import ConfigurationError, UnknownTrigger

log = logging.getLogger("swarm.hooks")
_NOBODY = "no trigger of this name takes webhooks, or the signature does not fit its secret"


def routes(swarm: Swarm) -> Sequence[Route]:
    """The route of deliveries."""

    async def receive(request: Request) -> Response:
        try:
            body = await _read(request)
            headers = {name.lower(): value for name, value in request.headers.items()}
            return await run_in_threadpool(deliver, swarm, request.path_params["trigger"], headers, body)
        except Exception as error:
            refusal = explain(error)
            if refusal.status == 500:
                log.error("a delivery to %s failed", request.url.path, exc_info=error)
            return refuse(refusal)

    return [Route("/hooks/{trigger}", receive, methods=["POST"])]


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_EVENT_BYTES:
            raise Refusal(413, "too_large", f"the event has more than {MAX_EVENT_BYTES // 1024} KiB")
    return bytes(data)


def deliver(swarm: Swarm, name: str, headers: dict[str, str], body: bytes) -> Response:
    """Take in a delivery. A success means that its event is kept, or that the trigger does not want it. Raises `Refusal`."""
    with swarm.store.explained():
        try:
            trigger = Triggers(swarm.store.keyspace).get(name).trigger
        except UnknownTrigger:
            raise Refusal(404, "unknown", _NOBODY) from None
    if trigger.webhook is None:
        raise Refusal(404, "unknown", _NOBODY)
    try:
        check_signature(trigger.webhook, headers, body, secret_of(trigger, os.environ), time.time())
        event = read_event(trigger.webhook, headers, body)
        wanted = accepts(trigger, event)
    except Forged as error:
        log.warning("a delivery to the trigger %s was refused: %s", name, error)
        raise Refusal(404, "unknown", _NOBODY) from None
    except UnreadableEvent as error:
        raise BadRequest(str(error)) from None
    except ConfigurationError as error:
        log.error("a delivery to the trigger %s failed: %s", name, error)
        raise Refusal(
            500, "trigger_broken", f"the trigger {name} cannot judge this event; its server's log says why"
        ) from None
    if isinstance(event.data, dict) and event.type == "url_verification":
        return JSONResponse({"challenge": event.data.get("challenge")})  # Slack asks this of a new address.
    if not wanted:
        return JSONResponse({"state": "ignored", "event": event.id})
    taken = take_event(swarm, trigger, event)
    if taken.state == "many":
        raise Refusal(429, "too_many", f"the trigger {name} takes {trigger.per_hour} events an hour")
    if taken.state == "paused":
        raise Refusal(503, "paused", f"the trigger {name} is paused")
    status = 202 if taken.state == "taken" else 200
    return JSONResponse({"state": taken.state, "event": event.id, "job": taken.job}, status)
