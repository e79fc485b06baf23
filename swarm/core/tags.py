"""Tags: words that describe a worker (`gpu`, `trusted`), which agents and tools can require."""

from __future__ import annotations

import re

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def split_tags(text: str) -> list[str]:
    """Split a text at commas and spaces into sorted tags. Raises `ValueError` for a bad one."""
    tags = sorted(set(filter(None, re.split(r"[,\s]+", text))))
    if wrong := [tag for tag in tags if not _TAG.fullmatch(tag)]:
        raise ValueError(f"{wrong[0][:80]!r} is not a tag; use letters, digits, '.', '_' and '-'")
    return tags
