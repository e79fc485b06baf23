"""The paths of memory's pages, as models and people write them: `/memories/notes/api.md`. Pure.

A path is taken only in the one form that it has: whatever could mean another place (`..`, an escape such as `%2e`, a backslash, a
control character, a hidden name) is refused, so nothing has to be resolved.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

from swarm.errors import ToolError

ROOT = "/memories"
TEAM = "team"
"""The folder that all types of agents of a project share."""
MAX_CHARACTERS = 200
_PART = re.compile(r"[\w][\w .()+@,=-]*")


def read_path(given: str) -> str:
    """The path below the root, `""` for the root itself. Raises `ToolError`."""
    path = unicodedata.normalize("NFC", given)
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with {ROOT}, got: {given}")
    plain = unquote(unquote(path))
    if plain != path or "\\" in path or ".." in path.split("/"):
        raise ToolError(f"Path {given} would escape {ROOT} directory")
    parts = [part for part in path.removeprefix(ROOT).split("/") if part]
    for part in parts:
        if not _PART.fullmatch(part) or part != part.strip():
            raise ToolError(
                f"Path {given[:MAX_CHARACTERS]} cannot be used: {part[:40]!r} is no name of a page or folder. "
                "Use letters, digits, spaces and . _ - ( ) + @ , =, beginning with a letter, a digit or _."
            )
    relative = "/".join(parts)
    if len(relative) > MAX_CHARACTERS:
        raise ToolError(f"Path {given[:40]}… is longer than {MAX_CHARACTERS} characters.")
    return relative


def show_path(relative: str) -> str:
    """The path as models write it."""
    return f"{ROOT}/{relative}" if relative else ROOT
