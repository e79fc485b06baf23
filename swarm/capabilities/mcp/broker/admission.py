"""Authorise requests to an address with the person's login, which is renewed once for all hosts.

Nothing here raises into the protocol. A request that is not authorised gets the server's own answer, and `refusal` says what to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import httpx2

from swarm.capabilities.mcp.broker.oauth import Granted, NotGranted, NotReached, renew
from swarm.capabilities.mcp.logins import LOCK_SECONDS, PATIENCE_SECONDS, Login, Seal, lock_of, name_of
from swarm.core.errors import SwarmError
from swarm.core.settings import Settings
from swarm.store.connection import connect_async
from swarm.store.outage import RedisError

EARLY_SECONDS = 5.0
"""How long before its expiry a login is renewed, so that it does not expire during a request."""
_REDIS_SECONDS = 5.0
_PAUSES = (0.2, 1.0, 3.0)
_LOG_IN = "a person has to do that: swarm mcp login {name}"


class Admission(httpx2.Auth):
    """Authorises the requests of one server's connection."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self._name, self.refusal = launch["name"], ""
        """Why the last request was refused; empty if it was accepted."""
        given = {name.lower() for name in launch.get("headers", ())}
        way = launch.get("login")
        self._kept = None if way is None or "authorization" in given else _StoredLogin(way, launch["url"])

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with the current token; after a refusal, send it once more with a renewed login."""
        token, why = await self._token(None)
        _show(request, token)
        response = yield request
        if response.status_code == 401 and token:
            token, why = await self._token(token)
            if token:
                _show(request, token)
                response = yield request
        self.refusal = self._explain(response, why)

    async def close(self) -> None:
        """Close the connection to Redis."""
        if self._kept is not None:
            await self._kept.close()

    async def _token(self, refused: str | None) -> tuple[str, str]:
        """Return (token, "") or ("", reason)."""
        if self._kept is None:
            return "", ""
        try:
            return await self._kept.find_token(refused), ""
        except (NotGranted, NotReached, SwarmError) as error:
            return "", str(error)
        except (RedisError, OSError) as error:
            return "", f"its login cannot be read ({type(error).__name__})"

    def _explain(self, response: httpx2.Response, why: str) -> str:
        log_in = _LOG_IN.format(name=self._name)
        if response.status_code == 401:
            if self._kept is None:
                return f"it wants a login, and none can be used here; {log_in}"
            return f"{why or 'it does not accept the login that there is'}; {log_in}"
        if response.status_code == 403 and "insufficient_scope" in response.headers.get("www-authenticate", ""):
            return f"the login that there is does not reach as far as it wants; {log_in}"
        return ""


class _StoredLogin:
    """A login in Redis, read for each request: a renewal, replacement or removal by others holds at once."""

    def __init__(self, way: dict[str, Any], url: str) -> None:
        self._url, self._place, self._name = url, way["place"], name_of(way["person"], url)
        self._seal = Seal(way["secret"], way["person"], url)
        self._redis = connect_async(Settings(redis_url=way["redis"]), timeout_seconds=_REDIS_SECONDS)
        self._turn = asyncio.Lock()
        self._renewals: set[asyncio.Task[str]] = set()

    async def find_token(self, refused: str | None) -> str:
        """Return the token to send, never `refused`. Raises `NotGranted`, `NotReached`, `SwarmError`, `RedisError`."""
        _, granted = await self._read()
        if _is_good(granted, refused):
            return _token_of(granted)
        # A renewal that has begun is completed even if the caller hangs up: the server may have revoked the old login.
        renewal = asyncio.create_task(self._take_turn(refused))
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)
        return await asyncio.shield(renewal)

    async def _take_turn(self, refused: str | None) -> str:
        lock = self._redis.lock(
            lock_of(self._place, self._name), timeout=LOCK_SECONDS, blocking_timeout=PATIENCE_SECONDS
        )
        async with self._turn, lock:
            # The previous holder of the lock may have renewed it.
            login, granted = await self._read()
            if _is_good(granted, refused):
                return _token_of(granted)
            return _token_of(await self._renew(login, granted))

    async def _renew(self, login: Login, granted: Granted) -> Granted:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS - 5):
                granted = await renew(self._url, granted)
        except TimeoutError as error:
            raise NotReached("the authorisation server takes too long to renew the login") from error
        except NotGranted as error:
            await self._write(login.model_copy(update={"ended": str(error)}))
            raise NotGranted(f"the login has ended: {error}") from error
        await self._write(describe_login(self._seal, granted))
        return granted

    async def _read(self) -> tuple[Login, Granted]:
        found = await self._redis.hget(self._place, self._name)
        if found is None:
            raise NotGranted("this person has no login at it any more")
        login = Login.model_validate_json(found)
        if login.ended:
            raise NotGranted(f"the login has ended: {login.ended}")
        return login, self._seal.open(login.sealed)

    async def _write(self, login: Login) -> None:
        # The replaced login may no longer be valid.
        for pause in (*_PAUSES, None):
            try:
                await self._redis.hset(self._place, self._name, login.model_dump_json())
                return
            except (RedisError, OSError):
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def close(self) -> None:
        if self._renewals:
            await asyncio.wait(self._renewals, timeout=PATIENCE_SECONDS)
        await self._redis.aclose()


def describe_login(seal: Seal, granted: Granted) -> Login:
    """Seal a grant, as Redis keeps it."""
    renewable = bool(granted.get("machine") or granted["tokens"].get("refresh_token"))
    return Login(sealed=seal.close(granted), made_at=time.time(), expires_at=granted["expires_at"], renewable=renewable)


def _is_good(granted: Granted, refused: str | None) -> bool:
    expires_at = granted["expires_at"]
    return _token_of(granted) != refused and (expires_at is None or expires_at - EARLY_SECONDS > time.time())


def _token_of(granted: Granted) -> str:
    return str(granted["tokens"]["access_token"])


def _show(request: httpx2.Request, token: str) -> None:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
