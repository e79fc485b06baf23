"""Pages that were fetched lately, for all agents of the swarm: a second look costs no request, and sees the same.

P:web:SHA256(url)  string  {url, status, text, moved_to}, packed JSON; it lives for `KEEP_SECONDS`
"""

from __future__ import annotations

import hashlib
import json
import zlib
from base64 import b85decode, b85encode
from dataclasses import asdict, dataclass

from swarm.store.agents import Store

KEEP_SECONDS = 900
MAX_KEPT_CHARACTERS = 500_000


@dataclass(frozen=True)
class Seen:
    """A page as agents are given it."""

    url: str
    status: int
    text: str
    moved_to: str = ""
    complete: bool = True


def recall(store: Store, url: str) -> Seen | None:
    """The page at this address, if it was fetched lately."""
    packed = store.client.get(_key(store, url))
    return None if packed is None else Seen(**json.loads(zlib.decompress(b85decode(packed))))


def remember(store: Store, url: str, seen: Seen) -> None:
    """Keep it for others, unless it is very long."""
    if len(seen.text) <= MAX_KEPT_CHARACTERS:
        packed = b85encode(zlib.compress(json.dumps(asdict(seen)).encode()))
        store.client.set(_key(store, url), packed, ex=KEEP_SECONDS)


def _key(store: Store, url: str) -> str:
    return store.key("web", hashlib.sha256(url.encode()).hexdigest())
