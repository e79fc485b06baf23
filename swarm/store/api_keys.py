"""Keys of the HTTP API and their scopes. Redis keeps a digest of each key, so a key is shown only when it is made."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import ConfigurationError
from swarm.permissions.ceiling import KEY_CEILING, Ceiling
from swarm.store.keyspace import Keyspace

Scope = Literal["read", "submit", "send", "answer", "cancel", "forget"]
"""A key's permissions: read; start jobs; write to agents; answer questions (which runs commands); cancel; forget jobs."""
SCOPES: tuple[Scope, ...] = get_args(Scope)
_MARK = "swarm_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ApiKey(BaseModel):
    """One key's record, without the key itself."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The key's name, also recorded as the author of an answer."""
    scopes: tuple[Scope, ...]
    ceiling: Ceiling = KEY_CEILING
    """The most that its orders may ask for."""
    created_at: float


class ApiKeys:
    """The keys of one swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._place = keyspace.key("api_keys")

    def create(self, name: str, scopes: Collection[str], ceiling: Ceiling = KEY_CEILING) -> str:
        """Make a key and return it. Raises `ConfigurationError` for a name that is taken or unusable, or an unknown scope."""
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} cannot name a key; use up to 64 letters, digits, dots, dashes and underscores"
            )
        if unknown := sorted(set(scopes) - set(SCOPES)):
            raise ConfigurationError(f"{unknown[0]!r} is no scope; choose from {', '.join(SCOPES)}")
        if any(key.name == name for key in self.all()):
            raise ConfigurationError(f"the key {name!r} exists; remove it first, or choose another name")
        token = _MARK + secrets.token_urlsafe(32)
        key = ApiKey(
            name=name,
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            ceiling=ceiling,
            created_at=self._keyspace.now(),
        )
        self._keyspace.client.hset(self._place, _digest(token), key.model_dump_json())
        return token

    def find(self, token: str) -> ApiKey | None:
        """The record of this key; None if it was never made, or is removed."""
        found = self._keyspace.client.hget(self._place, _digest(token))
        return None if found is None else ApiKey.model_validate_json(found)

    def all(self) -> list[ApiKey]:
        """All keys, by name."""
        found = map(ApiKey.model_validate_json, self._keyspace.client.hvals(self._place))
        return sorted(found, key=lambda key: key.name)

    def remove(self, name: str) -> bool:
        """Revoke a key at once; False if there is none of that name."""
        kept = self._keyspace.client.hgetall(self._place)
        gone = [digest for digest, key in kept.items() if ApiKey.model_validate_json(key).name == name]
        return bool(gone and self._keyspace.client.hdel(self._place, *gone))


def _digest(token: str) -> str:
    # Keys are long and random, so a plain digest reveals nothing about them.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
