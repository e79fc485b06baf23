"""An MCP server behind a real authorisation server, the official SDK's: `python -m tests.mcp_locked PORT`.

Clients register themselves, the code flow wants PKCE, and refresh tokens rotate: whoever shows a used one has stolen it, and everything
that was granted is void. `POST /expire` makes every access token invalid, `POST /revoke` every refresh token; `GET /counts` says
what happened, `GET /granted` which tokens there ever were.
"""

from __future__ import annotations

import secrets
import sys
import time
from base64 import b64encode
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

LIFETIME_SECONDS = 3600
PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 0
URL = f"http://127.0.0.1:{PORT}"


class Office:
    """Grants whatever is asked for: the person has agreed."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.used: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.granted: list[str] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.counts["registered"] += 1
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe()
        given = params.model_dump(exclude={"state", "scopes"})
        self.codes[code] = AuthorizationCode(
            **given, code=code, client_id=str(client.client_id), scopes=params.scopes or [], expires_at=time.time() + 60
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        del self.codes[code.code]
        return self.grant(code.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.used:
            self.counts["stolen"] += 1
            self.access.clear()
            self.refresh.clear()
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, token: RefreshToken, scopes: list[str]) -> OAuthToken:
        if self.refresh.pop(token.token, None) is None:
            raise TokenError("invalid_grant", "it was used")
        self.used.add(token.token)
        self.counts["renewed"] += 1
        return self.grant(token.client_id, scopes, token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.refresh.pop(token.token, None)

    def grant(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe()}", f"refresh-{secrets.token_urlsafe()}"
        self.granted += [access, refresh]
        about: dict[str, Any] = {"client_id": client_id, "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken(token=access, expires_at=int(time.time()) + LIFETIME_SECONDS, **about)
        self.refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFETIME_SECONDS)


office = Office()
server = MCPServer(
    "vault",
    auth_server_provider=office,
    auth=AuthSettings(
        issuer_url=URL,  # type: ignore[arg-type]
        resource_server_url=f"{URL}/mcp",  # type: ignore[arg-type]
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=True,
    ),
)


@server.tool()
def look() -> str:
    """Look into the vault."""
    return "gold"


@server.custom_route("/expire", methods=["POST"])
async def expire(request: Request) -> Response:
    office.access.clear()
    return JSONResponse({})


@server.custom_route("/revoke", methods=["POST"])
async def revoke(request: Request) -> Response:
    office.refresh.clear()
    return JSONResponse({})


@server.custom_route("/counts", methods=["GET"])
async def counts(request: Request) -> Response:
    return JSONResponse(office.counts)


@server.custom_route("/granted", methods=["GET"])
async def granted(request: Request) -> Response:
    return JSONResponse(office.granted)


def with_client_credentials(app: Any) -> Any:
    """The same application, which grants tokens to the client `robot` with the secret `s3cret`, too; the SDK's own does not."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/token":
            return await app(scope, receive, send)
        request = Request(scope, receive)
        body = await request.body()
        form = dict(parse_qsl(body.decode()))
        if form.get("grant_type") == "client_credentials":
            good = request.headers.get("authorization") == f"Basic {b64encode(b'robot:s3cret').decode()}"
            answer = JSONResponse({"error": "invalid_client"}, 401)
            if good:
                granted = office.grant("robot", [], form.get("resource"))
                answer = JSONResponse(granted.model_dump(exclude={"refresh_token", "scope"}))
            return await answer(scope, receive, send)

        async def again() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return await app(scope, again, send)

    return serve


if __name__ == "__main__":
    uvicorn.run(with_client_credentials(server.streamable_http_app()), host="127.0.0.1", port=PORT, log_level="warning")
