"""Reads JSON with comments and trailing commas, and names the settings files in that format."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.core.memo import look_at
from swarm.definitions.sources import Unusable, read_text

MANAGED = Path("/etc/claude-code")
"""The folder of an administrator's files, for all users of this machine."""
MANAGED_SETTINGS = "managed-settings.json"
OWN_SETTINGS = (".claude/settings.json", ".config/swarm/settings.json")
"""A person's settings files, below the home folder."""
WORKSPACE_SETTINGS = (
    ".claude/settings.json",
    ".swarm/settings.json",
    # Named as a person's own file, but a clone may contain it too, and the two look alike.
    ".claude/settings.local.json",
)
"""A workspace's settings files, the nearest last."""

_TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\\n])*")      # kept, with everything inside
    | (?P<broken>"[^\n]*)                      # not closed on its line: the parser refuses it
    | (?P<comment>//[^\n]* | /\*.*?(?:\*/|\Z))
    | (?P<comma>,(?=\s*[}\]]))
    | [^"/,]+ | .""",
    re.DOTALL | re.VERBOSE,
)


def parse_jsonc(text: str) -> Any:
    """Parse the text. Raises `Unusable` with the line of the fault."""
    # Comments first, because one may follow a trailing comma. Both steps keep line numbers.
    plain = _blank(_blank(text, "comment"), "comma")
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise Unusable(f"it is not valid JSON: {error.msg}", "Correct it there.", error.lineno) from error
    except (RecursionError, ValueError) as error:
        raise Unusable("it is nested too deeply, or a number in it is too long", "Simplify it.") from error


def read_table(path: Path) -> Mapping[str, Any]:
    """Read the object in a file; an empty one if there is no file. Raises `Unusable`."""
    look_at(path)
    if not os.path.lexists(path):
        return {}
    content = parse_jsonc(read_text(path))
    if not isinstance(content, Mapping):
        raise Unusable("it is not a table", "Write an object in it.")
    return content


def _blank(text: str, kind: str) -> str:
    """Replace every token of this kind by spaces."""
    return _TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match.lastgroup == kind else match[0], text)
