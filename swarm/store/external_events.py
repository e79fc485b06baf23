"""External events: a program reports one under a key, and agents wait for the key with `WaitFor`.

Guarantees: the first event of a key stays until it expires; a second one changes nothing and is reported as such. Waiting agents
continue in the same step. An agent that begins to wait before the event expires gets it at once. A wait is a question that only the
event answers, so it survives like a question.
"""

from __future__ import annotations

import re
import secrets

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import ConfigurationError, RedisFull
from swarm.store.keyspace import Keyspace
from swarm.store.values import Signals

MAX_DATA_BYTES = 64 * 1024
KEEP_SECONDS = 86_400.0
MAX_KEEP_SECONDS = 30 * 86_400.0
_KEY = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]{1,200}")


class ExternalEvent(BaseModel):
    """A reported event and its effects."""

    model_config = ConfigDict(frozen=True)

    key: str
    new: bool
    """False: the key already had this event."""
    data: str
    by: str
    """The sender."""
    at: float
    """Time of the report by the server's clock."""
    woken: list[str] = []
    """The waiting agents that continue now."""


def check_key(key: str) -> str:
    """Check an event's key. Raises `ConfigurationError` for one that cannot be used."""
    if not _KEY.fullmatch(key):
        raise ConfigurationError(
            f"{key[:80]!r} cannot be the key of an event: use 1 to 200 characters without spaces, as in deploy/1234"
        )
    return key


class ExternalEvents:
    """The external events of a swarm. Jobs share their keys."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def tell(
        self, key: str, data: str = "", *, by: str, keep_seconds: float = KEEP_SECONDS
    ) -> tuple[ExternalEvent, Signals]:
        """Report an event. Raises `ConfigurationError` for a key, data or a time that cannot be used.

        Raises `RedisFull` near Redis' limit, unless an agent waits for it.
        """
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
        if answer[0] == "full":
            raise RedisFull(*answer[1:])
        if answer[0] == "known":
            at, notifier, told = answer[1:]
            return ExternalEvent(key=key, new=False, data=told, by=notifier, at=float(at)), Signals()
        told_now = ExternalEvent(key=key, new=True, data=data, by=by, at=self._keyspace.now(), woken=answer[2])
        return told_now, Signals(publish=answer[1])
