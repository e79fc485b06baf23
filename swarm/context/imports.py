"""What of an instruction file is meant for models: its text without comments, and the files that it imports. Pure.

`@path` in the text imports a file. In code (fenced or a span) it is only text, and so is what follows a letter, as in an address.
An HTML comment is for people; in code it stays.
"""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?^ {0,3}(?P=fence)[`~]*[ \t]*$|.*\Z)"
    r"|<!--(?:.*?-->|.*\Z)"
    r"|(?P<ticks>(?<!`)`+)(?!`).{0,400}?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)
"""Code and comments. What is not closed goes to the end, so each character is looked at only a few times."""
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:\\ |[^\s\\])+)", re.MULTILINE)
_CLOSING = ".,;:!?)\"'"


def strip_comments(text: str) -> str:
    """The text without HTML comments, but for those in code; lines that only they filled are gone."""
    if "<!--" not in text:
        return text
    plain = _PARTS.sub(lambda found: "" if _is_comment(found[0]) else found[0], text)
    return plain if plain == text else re.sub(r"\n[ \t]*(?:\n[ \t]*){2,}", "\n\n", plain).strip("\n") + "\n"


def find_imports(text: str) -> list[str]:
    """The paths that a text imports, as they are written, each once, in order."""
    if "@" not in text:
        return []
    prose = _PARTS.sub(" ", text)
    found = (name.replace("\\ ", " ").rstrip(_CLOSING) for name in _IMPORT.findall(prose))
    return list(dict.fromkeys(name for name in found if name))


def looks_like_file(name: str) -> bool:
    """Whether an import that leads nowhere is worth telling: people also write `@somebody` and `@decorator`."""
    return "/" in name or bool(re.search(r"\.(md|mdc|txt)$", name, re.IGNORECASE))


def _is_comment(part: str) -> bool:
    return part.startswith("<!--") and part.endswith("-->")
