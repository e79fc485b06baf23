"""Pages of the web that were fetched lately, kept for all agents of the fleet."""

from __future__ import annotations

import hashlib
import json
import zlib
from base64 import b85decode, b85encode
from dataclasses import asdict, dataclass

from swarm.store.keyspace import Keyspace

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


class PageCache:
    """The pages by their addresses."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def find(self, url: str) -> Seen | None:
        """The page at this address, if it was fetched lately."""
        packed = self._keyspace.client.get(self._key(url))
        return None if packed is None else Seen(**json.loads(zlib.decompress(b85decode(packed))))

    def keep(self, url: str, seen: Seen) -> None:
        """Keep the page for others, unless it is very long."""
        if len(seen.text) <= MAX_KEPT_CHARACTERS:
            packed = b85encode(zlib.compress(json.dumps(asdict(seen)).encode()))
            self._keyspace.client.set(self._key(url), packed, ex=KEEP_SECONDS)

    def _key(self, url: str) -> str:
        return self._keyspace.key("web", hashlib.sha256(url.encode()).hexdigest())
