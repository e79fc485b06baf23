"""Elements of a prompt that hold the text of others. Pure."""

from __future__ import annotations

import re

_TAGS = re.compile(r"<(?=/?(?:instructions|file)\b)", re.IGNORECASE)


def wrap_file(path: str, text: str) -> str:
    """Return a file's text as an element that names its path. Neither of them can end the element, or begin another one."""
    name = path.replace('"', "'").replace("\n", " ")
    return f'<file path="{_guard(name)}">\n{_guard(text)}\n</file>'


def _guard(text: str) -> str:
    return _TAGS.sub("&lt;", text)
