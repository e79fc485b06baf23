"""JSON with comments and trailing commas, as people write configuration files."""

from __future__ import annotations

import json
import re
from typing import Any

from swarm.definitions.sources import Unusable

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


def _blank(text: str, kind: str) -> str:
    """The text with every token of this kind replaced by spaces."""
    return _TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match.lastgroup == kind else match[0], text)
