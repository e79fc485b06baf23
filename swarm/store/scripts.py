"""The atomic steps, loaded from `scripts/*.lua`; each file's head gives its arguments and answers."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import redis

NAMES = (
    *("submit", "claim", "append", "reserve", "spawn", "park", "handover", "finish", "cancel", "renew", "rescue"),
    *("send", "take", "mark", "answer", "board", "pad", "team"),
)


@cache
def source(name: str) -> str:
    """The text of one script, with the shared parts in front."""
    folder = resources.files("swarm.store").joinpath("scripts")
    parts = ("common", "shared_board", "shared_questions", name)
    return "\n".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts)


class Scripts:
    """The scripts, bound to one client and one key prefix."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._prefix = prefix
        self._scripts = {name: client.register_script(source(name)) for name in NAMES}

    def run(self, name: str, *arguments: str | int | float) -> Any:
        """Run a script; a server that does not know it yet is given its text."""
        return self._scripts[name](args=[self._prefix, *arguments])
