"""Logins at MCP servers, sealed, in Redis, where every host finds them.

Redis holds the sealed login and never the key; only its expiry is readable. The sealed part names its person and address, so a copy
elsewhere is useless. Renewing or replacing a login requires its lock: an authorisation server that rotates refresh tokens takes the second
use of one for theft.
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
"""Expiry of a lock whose holder died; holders finish or give up sooner."""
PATIENCE_SECONDS = 45.0
"""How long others wait for the lock."""
_PLACE = "mcp_logins"
_KEY_FILE = "mcp-logins.key"


class NotSealedHere(SwarmError):
    """A sealed login cannot be opened with this key."""


class Login(BaseModel):
    """A login as Redis keeps it. Times are Unix seconds."""

    model_config = ConfigDict(frozen=True)

    sealed: str
    made_at: float
    expires_at: float | None = None
    """Expiry of the access token; None: the server named none."""
    renewable: bool = False
    """Whether the login is renewed after its expiry without a person."""
    ended: str = ""
    """Why the login cannot be used any more; empty while it can."""

    def has_ended(self, now: float) -> bool:
        """Whether the person must log in again."""
        return bool(self.ended) or (not self.renewable and self.expires_at is not None and self.expires_at <= now)


class Seal:
    """Seals the logins of one person and address. Needs `cryptography`, which only brokers and people's commands load."""

    def __init__(self, secret: str, person: str, url: str) -> None:
        from cryptography.fernet import Fernet

        # The secret is long and random, so a slow key derivation is not needed.
        key = hashlib.sha256(f"swarm/mcp-logins/{secret}".encode()).digest()
        self._box, self._whose = Fernet(base64.urlsafe_b64encode(key)), [person, url]

    def close(self, content: dict[str, Any]) -> str:
        """Seal a login."""
        return self._box.encrypt(json.dumps({"of": self._whose, "is": content}).encode()).decode()

    def open(self, sealed: str) -> dict[str, Any]:
        """Open a sealed login. Raises `NotSealedHere`."""
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
    """The logins of one swarm, still sealed."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace, self.place = keyspace, keyspace.key(_PLACE)

    def find(self, person: str, url: str) -> Login | None:
        """The login of a person at an address."""
        found = self._keyspace.client.hget(self.place, name_of(person, url))
        return None if found is None else Login.model_validate_json(found)

    def keep(self, person: str, url: str, login: Login) -> None:
        """Store a login in place of any other."""
        with self._locked(person, url):
            self._keyspace.client.hset(self.place, name_of(person, url), login.model_dump_json())

    def remove(self, person: str, url: str) -> bool:
        """Remove a login; False if there was none."""
        with self._locked(person, url):
            return bool(self._keyspace.client.hdel(self.place, name_of(person, url)))

    def _locked(self, person: str, url: str) -> Any:
        # The client of redis-py: the retrying one has no locks.
        name = lock_of(self.place, name_of(person, url))
        return self._keyspace.no_retry.lock(name, timeout=LOCK_SECONDS, blocking_timeout=PATIENCE_SECONDS)


def name_of(person: str, url: str) -> str:
    """The field of a login, a hash: neither the person nor the address is written in Redis."""
    return hashlib.sha256(json.dumps([person, url]).encode()).hexdigest()


def lock_of(place: str, name: str) -> str:
    """The key of a login's lock."""
    return f"{place}:lock:{name}"


def way_to(settings: Settings, store: Store, person: str, url: str) -> dict[str, Any] | None:
    """Return what a broker needs to use a person's login at an address; None without a login or a key."""
    secret = find_key(settings)
    if not person or secret is None or (logins := Logins(store.keyspace)).find(person, url) is None:
        return None
    return {"redis": redis_url(settings), "place": logins.place, "person": person, "secret": secret}


def find_key(settings: Settings) -> str | None:
    """Return the key that seals logins; None if the setting is empty and no key file exists."""
    if settings.mcp_token_key or settings.redis_url is not None:
        return settings.mcp_token_key
    try:
        return _key_file(settings).read_text().strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{_key_file(settings)} cannot be read: {error.strerror}") from error


def make_key(settings: Settings) -> str:
    """Return the key, made if needed. Raises `ConfigurationError` if workers could not know a new one."""
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
        os.link(draft, path)  # the first process wins
    except FileExistsError:
        pass
    draft.unlink()
    return path.read_text().strip()


def _key_file(settings: Settings) -> Path:
    return settings.state_folder() / _KEY_FILE
