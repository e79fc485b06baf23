"""Logins at MCP servers: what a person was granted for an address, sealed, in Redis, where every host finds it.

Redis has what is sealed and never the key. In the clear is only how long a login is good. What is sealed names its person and address, so
it is of no use where it was not put. Whoever renews or replaces a login holds its lock: an authorisation server that gives a new
refresh token with each renewal takes the second use of one for theft.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import ConfigurationError, SwarmError
from swarm.core.settings import Settings
from swarm.store.connection import redis_url
from swarm.store.keyspace import Keyspace
from swarm.store.store import Store

LOCK_SECONDS = 60.0
"""How long a lock outlives its holder, who is done or has given up sooner …"""
PATIENCE_SECONDS = 45.0
"""… and how long others wait for it."""
_PLACE = "mcp_logins"
_KEY_FILE = "mcp-logins.key"


class NotSealedHere(SwarmError):
    """What is kept cannot be opened with this key."""


class Login(BaseModel):
    """A login as Redis keeps it. Times are Unix seconds."""

    model_config = ConfigDict(frozen=True)

    sealed: str
    made_at: float
    expires_at: float | None = None
    """Of what is sent to the server; None: it was not said."""
    renewable: bool = False
    """Whether it is renewed when it expires, without a person."""
    ended: str = ""
    """Why it is of no use any more; empty while it is."""

    def has_ended(self, now: float) -> bool:
        """Whether only a person can make it good again."""
        return bool(self.ended) or (not self.renewable and self.expires_at is not None and self.expires_at <= now)


class Seal:
    """Seals what logins hold for one person and address. Needs `cryptography`, which only brokers and people's commands load."""

    def __init__(self, secret: str, person: str, url: str) -> None:
        from cryptography.fernet import Fernet

        # The secret is long and random: nothing has to make guessing it slow.
        key = hashlib.sha256(f"swarm/mcp-logins/{secret}".encode()).digest()
        self._box, self._whose = Fernet(base64.urlsafe_b64encode(key)), [person, url]

    def close(self, content: dict[str, Any]) -> str:
        """Seal it."""
        return self._box.encrypt(json.dumps({"of": self._whose, "is": content}).encode()).decode()

    def open(self, sealed: str) -> dict[str, Any]:
        """What was sealed. Raises `NotSealedHere`."""
        from cryptography.fernet import InvalidToken

        try:
            found = json.loads(self._box.decrypt(sealed.encode()))
        except InvalidToken:
            raise NotSealedHere("the login is sealed with another SWARM_MCP_TOKEN_KEY than this host has") from None
        if found["of"] != self._whose:
            raise NotSealedHere("the login was made for another person or address")
        content: dict[str, Any] = found["is"]
        return content


class Logins:
    """Those of one swarm, without what is sealed of them."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace, self.place = keyspace, keyspace.key(_PLACE)

    def find(self, person: str, url: str) -> Login | None:
        """The login of a person at an address."""
        found = self._keyspace.client.hget(self.place, name_of(person, url))
        return None if found is None else Login.model_validate_json(found)

    def keep(self, person: str, url: str, login: Login) -> None:
        """Put it in the place of any other."""
        with self._locked(person, url):
            self._keyspace.client.hset(self.place, name_of(person, url), login.model_dump_json())

    def remove(self, person: str, url: str) -> bool:
        """Forget it; False if there was none."""
        with self._locked(person, url):
            return bool(self._keyspace.client.hdel(self.place, name_of(person, url)))

    def _locked(self, person: str, url: str) -> Any:
        # Redis's own client: one that waits for Redis has no locks.
        name = lock_of(self.place, name_of(person, url))
        return self._keyspace.no_retry.lock(name, timeout=LOCK_SECONDS, blocking_timeout=PATIENCE_SECONDS)


def name_of(person: str, url: str) -> str:
    """The field of a login: neither the person nor the address is written in Redis."""
    return hashlib.sha256(json.dumps([person, url]).encode()).hexdigest()


def lock_of(place: str, name: str) -> str:
    """The key of a login's lock."""
    return f"{place}:lock:{name}"


def way_to(settings: Settings, store: Store, person: str, url: str) -> dict[str, Any] | None:
    """What a broker needs to use the login of a person at an address; None if there is none, or nothing to open it with."""
    secret = find_key(settings)
    if not person or secret is None or (logins := Logins(store.keyspace)).find(person, url) is None:
        return None
    return {"redis": redis_url(settings), "place": logins.place, "person": person, "secret": secret}


def find_key(settings: Settings) -> str | None:
    """What logins are sealed with; None if nothing was set, and no file made."""
    if settings.mcp_token_key or settings.redis_url is not None:
        return settings.mcp_token_key
    try:
        return _key_file(settings).read_text().strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{_key_file(settings)} cannot be read: {error.strerror}") from error


def make_key(settings: Settings) -> str:
    """The same, made where it can be. Raises `ConfigurationError` where workers could not know it."""
    if found := find_key(settings):
        return found
    if settings.redis_url is not None:
        raise ConfigurationError(
            "logins are kept sealed in the swarm's Redis: set SWARM_MCP_TOKEN_KEY to one secret of 32 characters or more (openssl rand "
            "-hex 32), here and for the workers"
        )
    path = _key_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_hex(32) + "\n")
    try:
        os.link(draft, path)  # whoever is first
    except FileExistsError:
        pass
    draft.unlink()
    return path.read_text().strip()


def _key_file(settings: Settings) -> Path:
    return settings.state_folder() / _KEY_FILE
