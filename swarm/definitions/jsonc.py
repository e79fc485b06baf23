"""JSON with comments and trailing commas, as people write configuration files, and the settings files that are written so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.definitions.sources import Unusable, read_text

OWN_SETTINGS = (".claude/settings.json", ".config/swarm/settings.json")
"""A person's settings files, below the home folder."""
WORKSPACE_SETTINGS = (
    ".claude/settings.json",
    ".swarm/settings.json",
    # By its name a person's own file; but a clone may bring it along, and nothing tells the two apart.
    ".claude/settings.local.json",
)
"""Those of a workspace, the nearest last."""

_TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\\n])*")      # kept, and nothing inside it looked at
    | (?P<broken>"[^\n]*)                      # not closed on its line: left to the parser to refuse
    | (?P<comment>//[^\n]* | /\*.*?(?:\*/|\Z))
    | (?P<comma>,(?=\s*[}\]]))
    | [^"/,]+ | .""",
    re.DOTALL | re.VERBOSE,
)


def parse_jsonc(text: str) -> Any:
    """The value of the text. Raises `Unusable` with the line of the fault."""
    # Comments first: a trailing comma may have one behind it. Both steps keep every line where it was.
    plain = _blank(_blank(text, "comment"), "comma")
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise Unusable(f"it is not valid JSON: {error.msg}", "Correct it there.", error.lineno) from error
    except (RecursionError, ValueError) as error:
        raise Unusable("it is nested too deeply, or a number in it is too long", "Simplify it.") from error


def read_table(path: Path) -> Mapping[str, Any]:
    """The object that a file holds; an empty one if there is no file. Raises `Unusable`."""
    if not os.path.lexists(path):
        return {}
    content = parse_jsonc(read_text(path))
    if not isinstance(content, Mapping):
        raise Unusable("it is not a table", "Write an object in it.")
    return content


def _blank(text: str, kind: str) -> str:
    """The text with every token of this kind replaced by spaces."""
    return _TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match.lastgroup == kind else match[0], text)
