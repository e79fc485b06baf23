"""Reads the keys of a definition whose body is a program: `command`, its words, and `restart`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.definitions.sources import Unusable, as_text, show

MAX_WORDS = 100


def read_program(keys: Mapping[str, Any], description: str, warnings: list[str]) -> dict[str, Any]:
    """The fields that say it, none where there is no program. Raises `Unusable`."""
    command = keys.get("command")
    if command is None:
        return {}
    if not isinstance(command, list):
        # Elsewhere people keep notes under this key: a line of text must not become a program.
        warnings.append("`command` is no list of words, so it is no program: write for example [python, agent.py]")
        return {}
    words = [as_text(word) for word in command]
    if not words or len(words) > MAX_WORDS or not words[0].strip() or any("\0" in word for word in words):
        raise Unusable(f"`command` is {show(command)}, and no program with its arguments", "Write [python, agent.py].")
    fields: dict[str, Any] = {"command": words, "instruction_files": False}
    if keys.get("restart") is not None:
        fields["restart"] = as_text(keys["restart"]).strip().lower() in ("true", "yes", "on", "1")
    return fields | {"prompt": description.strip() or "(A program.)"}
