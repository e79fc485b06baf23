"""Keys of requests: finding a request's key, and checking it for an operation."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from swarm.client.failures import Refusal
from swarm.client.operations import Operation
from swarm.store.api_keys import ApiKey, ApiKeys


def find_key(headers: Mapping[str, str], keys: ApiKeys) -> ApiKey:
    """Return a request's key. Raises `Refusal`."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = keys.find(token.strip()) if scheme.lower() == "bearer" and token else None
    if key is None:
        raise Refusal(401, "unauthorized", "send `Authorization: Bearer KEY` with a key that `swarm keys add` has made")
    return key


def check_scope(key: ApiKey, operation: Operation) -> None:
    """Raise `Refusal` if the key lacks the operation's scope."""
    if operation.scope not in key.scopes:
        needs = f"{operation.name} needs the scope {operation.scope!r}"
        raise Refusal(403, "forbidden", f"{needs}, and the key {key.name!r} has {', '.join(key.scopes)}")


def refuse(refusal: Refusal) -> Response:
    """Return the response for a refusal."""
    headers = {"WWW-Authenticate": 'Bearer realm="swarm"'} if refusal.status == 401 else None
    return JSONResponse(refusal.body, refusal.status, headers=headers)
