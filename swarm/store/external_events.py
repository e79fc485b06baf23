"""Events from outside: what a program tells the swarm under a key, and agents wait for with `WaitFor`.

Guarantees: the first event of a key stays as long as it is kept, and a second one changes nothing and is told so; whoever waits for the
key goes on in the same step; whoever begins to wait later, and before it expires, has it at once. Waiting is a question that
nobody but the event answers, so it survives what questions survive.
"""

from __future__ import annotations

import re
import secrets

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import ConfigurationError
from swarm.store.keyspace import Keyspace
from swarm.store.values import Signals

MAX_DATA_BYTES = 64 * 1024
KEEP_SECONDS = 86_400.0
MAX_KEEP_SECONDS = 30 * 86_400.0
_KEY = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]{1,200}")


class ExternalEvent(BaseModel):
    """An event as it was told, and what came of it."""

    model_config = ConfigDict(frozen=True)

    key: str
    new: bool
    """False: the key had one already, which is this."""
    data: str
    by: str
    """Who told it."""
    at: float
    """When, by the server's clock."""
    woken: list[str] = []
    """The agents that waited for it and go on now."""


def check_key(key: str) -> str:
    """The key. Raises `ConfigurationError` for one that cannot be used."""
    if not _KEY.fullmatch(key):
        raise ConfigurationError(
            f"{key[:80]!r} cannot be the key of an event: use 1 to 200 characters without spaces, as deploy/1234"
        )
    return key


class ExternalEvents:
    """The events that a swarm was told. Their keys are the swarm's: jobs share them."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def tell(
        self, key: str, data: str = "", *, by: str, keep_seconds: float = KEEP_SECONDS
    ) -> tuple[ExternalEvent, Signals]:
        """Tell an event. Raises `ConfigurationError` for a key, data or a time that cannot be used."""
        check_key(key)
        if (size := len(data.encode("utf-8", "replace"))) > MAX_DATA_BYTES:
            raise ConfigurationError(
                f"the data of the event {key!r} has {size:,} bytes, more than {MAX_DATA_BYTES:,}; "
                "put it where agents can read it, and name that place"
            )
        if not 0 < keep_seconds <= MAX_KEEP_SECONDS:
            raise ConfigurationError(
                f"an event is kept up to {MAX_KEEP_SECONDS / 86_400:.0f} days, not {keep_seconds:.0f} s"
            )
        data = data.encode("utf-8", "replace").decode()
        answer = self._keyspace.run("happen", key, data, by, keep_seconds, secrets.token_hex(8))
        if answer[0] == "known":
            at, notifier, told = answer[1:]
            return ExternalEvent(key=key, new=False, data=told, by=notifier, at=float(at)), Signals()
        told_now = ExternalEvent(key=key, new=True, data=data, by=by, at=self._keyspace.now(), woken=answer[2])
        return told_now, Signals(publish=answer[1])
