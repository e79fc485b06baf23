"""Notes in memory that a worker's processes share: what one of them finds out, all know."""

from __future__ import annotations

import json
import mmap
import time
from typing import Any

_LONGEST_REASON = 1_000


class SharedDocument:
    """A JSON document that the main process and its later children share. The last writer wins."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size)

    def read(self) -> dict[str, Any]:
        """The document; empty if there is none yet."""
        try:
            return dict(json.loads(self._memory[:]))
        except ValueError:  # still empty, or a sibling is writing
            return {}

    def write(self, document: dict[str, Any]) -> None:
        """Replace the document; one that is too long is left out."""
        text = json.dumps(document).encode()
        if len(text) <= len(self._memory):
            self._memory[:] = text.ljust(len(self._memory))


class Reasons:
    """Reasons by name, each of them for some time."""

    def __init__(self, size: int) -> None:
        self._document = SharedDocument(size)

    def note(self, name: str, why: str, seconds: float) -> None:
        """Note a reason that holds for so long from now."""
        now = time.time()
        known = {name: entry for name, entry in self._document.read().items() if entry[0] > now}
        self._document.write({**known, name: [now + seconds, why[:_LONGEST_REASON]]})

    def current(self) -> dict[str, str]:
        """The reasons that hold now."""
        now = time.time()
        return {name: why for name, (until, why) in self._document.read().items() if until > now}
