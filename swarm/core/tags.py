"""Tags: words for what a worker is (`gpu`, `trusted`), which agents and tools may require."""

from __future__ import annotations

import re

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def split_tags(text: str) -> list[str]:
    """The tags that a text names, parted by commas or spaces, in order. Raises `ValueError` for what is none."""
    tags = sorted(set(filter(None, re.split(r"[,\s]+", text))))
    if wrong := [tag for tag in tags if not _TAG.fullmatch(tag)]:
        raise ValueError(f"{wrong[0][:80]!r} is no tag; use letters, digits, '.', '_' and '-'")
    return tags
