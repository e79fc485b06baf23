"""OAuth by the SDK's own client: log a person in at an address, and renew the login without them. Stores nothing.

A login is a document with `tokens`, `expires_at`, the `client` that it was granted to, and the authorisation server's metadata
(`issued_by`, `resource`). Without the metadata a renewal would have to guess where to ask.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

Granted = dict[str, Any]
SECONDS = 20.0
"""How long the authorisation server may take for one request."""
_TRIAL = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_HEADERS = {"Accept": "application/json, text/event-stream"}
_REFUSED = (400, 401, 403)


class NotGranted(Exception):
    """The authorisation server refused, or is none; only a person can change that."""


class NotReached(Exception):
    """The login's state is unknown; a later renewal may succeed."""


class _CachedLogin:
    """The SDK's storage for the duration of one login or renewal."""

    def __init__(self, client: OAuthClientInformationFull | None = None, tokens: OAuthToken | None = None) -> None:
        self.client, self.tokens = client, tokens
        self.expires_at: float | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self.expires_at = time.time() + tokens.expires_in if tokens.expires_in is not None else None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Browsing(OAuthClientProvider):
    """The code flow with the configured scope instead of the one that the server proposes."""

    wanted = ""

    async def _perform_authorization(self) -> httpx2.Request:
        self.context.client_metadata.scope = self.wanted or self.context.client_metadata.scope
        return await super()._perform_authorization()


async def log_in(
    url: str,
    redirect: str,
    show: Callable[[str], Awaitable[None]],
    receive: Callable[[], Awaitable[dict[str, str]]],
    *,
    client_id: str = "",
    client_secret: str = "",
    scope: str = "",
    issuer: str = "",
) -> Granted:
    """Log in through a browser: `show` gets the address to open, `receive` returns the redirect's parameters.

    Raises `NotGranted` with the reason.
    """
    method = "client_secret_post" if client_secret else "none"
    about: dict[str, Any] = {"redirect_uris": [redirect], "token_endpoint_auth_method": method}
    client = None
    if client_id:
        client = OAuthClientInformationFull(
            client_id=client_id, client_secret=client_secret or None, issuer=issuer or None, **about
        )
    storage = _CachedLogin(client)

    async def come_back() -> AuthorizationCodeResult:
        found = await receive()
        if "error" in found:
            raise OAuthFlowError(found.get("error_description") or found["error"])
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    metadata = OAuthClientMetadata(client_name="swarm", scope=scope or None, **about)
    provider = _Browsing(url, metadata, storage, show, come_back)
    provider.wanted = scope
    return await _try(url, provider, storage)


async def log_in_as_client(url: str, client_id: str, client_secret: str, *, scope: str = "", issuer: str) -> Granted:
    """Log in with the credentials that an issuer gave to a client, without a person. Raises `NotGranted`, `NotReached`."""
    storage = _CachedLogin()
    provider = ClientCredentialsOAuthProvider(
        url, storage, client_id, client_secret, scope=scope or None, issuer=issuer
    )
    granted = await _try(url, provider, storage)
    machine = {"client_id": client_id, "client_secret": client_secret, "scope": scope, "issuer": issuer}
    return {**granted, "machine": machine}


async def renew(url: str, granted: Granted) -> Granted:
    """Return the login with new tokens. Raises `NotGranted`, `NotReached`."""
    if machine := granted.get("machine"):
        return await log_in_as_client(url, **machine)
    storage = _CachedLogin(
        OAuthClientInformationFull.model_validate(granted["client"]), OAuthToken.model_validate(granted["tokens"])
    )
    if storage.tokens is None or not storage.tokens.refresh_token:
        raise NotGranted("it has expired, and the server gave nothing to renew it with")
    metadata = OAuthClientMetadata(redirect_uris=storage.client.redirect_uris if storage.client else None)
    provider = OAuthClientProvider(url, metadata, storage)
    context = provider.context
    context.oauth_metadata = _read(OAuthMetadata, granted["issued_by"])
    context.protected_resource_metadata = _read(ProtectedResourceMetadata, granted["resource"])
    context.token_expiry_time = 1.0  # long ago: its first request is the renewal, and no other is sent
    flow = provider.async_auth_flow(httpx2.Request("POST", url))
    try:
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            response = await http.send(await anext(flow))
        while (following := await flow.asend(response)).url != httpx2.URL(url):
            async with httpx2.AsyncClient(timeout=SECONDS) as http:
                response = await http.send(following)
    except httpx2.HTTPError as error:
        raise NotReached(
            f"the authorisation server cannot be reached ({str(error) or type(error).__name__})"
        ) from error
    finally:
        await flow.aclose()
    if response.status_code in _REFUSED:
        raise NotGranted(f"its renewal was refused ({_explain(response)})")
    if context.current_tokens is None:
        raise NotReached(f"the authorisation server could not renew it (HTTP {response.status_code})")
    return _granted(provider, storage)


async def _try(url: str, provider: OAuthClientProvider, storage: _CachedLogin) -> Granted:
    try:
        async with httpx2.AsyncClient(auth=provider, timeout=SECONDS, headers=_HEADERS) as http:
            response = await http.post(url, json=_TRIAL)
    except OAuthFlowError as error:
        raise NotGranted(str(error)) from error
    except httpx2.HTTPError as error:
        raise NotReached(f"it cannot be reached ({str(error) or type(error).__name__})") from error
    if storage.tokens is None:
        raise NotGranted(f"it wants no login (HTTP {response.status_code} without one)")
    if response.status_code in (401, 403):
        raise NotGranted(f"it does not accept what its authorisation server granted (HTTP {response.status_code})")
    return _granted(provider, storage)


def _granted(provider: OAuthClientProvider, storage: _CachedLogin) -> Granted:
    context = provider.context
    parts = {
        "tokens": storage.tokens,
        "client": storage.client or context.client_info,
        "issued_by": context.oauth_metadata,
        "resource": context.protected_resource_metadata,
    }
    told = {
        name: None if part is None else part.model_dump(mode="json", exclude_none=True) for name, part in parts.items()
    }
    return {**told, "expires_at": storage.expires_at}


def _read(kind: Any, document: Any) -> Any:
    return None if document is None else kind.model_validate(document)


def _explain(response: httpx2.Response) -> str:
    """Return only the error of a refusal; the rest of the response may be anything."""
    try:
        told = response.json()
        said = [str(told[name])[:200] for name in ("error", "error_description") if told.get(name)]
    except (ValueError, AttributeError):
        said = []
    return ": ".join(said) or f"HTTP {response.status_code}"
