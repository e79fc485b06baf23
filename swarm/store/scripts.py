"""The atomic steps, loaded from `scripts/*.lua`; each file's head gives its arguments and answers."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import redis

NAMES = (
    *("submit", "claim", "append", "reserve", "spawn", "park", "handover", "finish", "cancel", "renew", "rescue"),
    *("send", "take", "mark", "answer", "hint", "board", "pad", "team"),
)
_ENDING = frozenset({"park", "finish", "cancel", "rescue", "send", "answer", "board", "pad", "team"})
"""Those that may end an agent, or touch the board or a question. Only they get the parts about that: every step makes all of its
functions anew, which takes the server as long as half an append."""


@cache
def source(name: str) -> str:
    """The text of one script, with the shared parts in front."""
    folder = resources.files("swarm.store").joinpath("scripts")
    parts = ("common", *(("shared_board", "shared_questions") if name in _ENDING else ()), name)
    return "\n".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts)


class Scripts:
    """The scripts, bound to one client and one key prefix."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._prefix = prefix
        self._scripts = {name: client.register_script(source(name)) for name in NAMES}

    def run(self, name: str, *arguments: str | int | float) -> Any:
        """Run a script; a server that does not know it yet is given its text."""
        return self._scripts[name](args=[self._prefix, *arguments])
