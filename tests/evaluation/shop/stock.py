"""Stock of articles."""

from __future__ import annotations


def is_short(have: int, wanted: int) -> bool:
    """Whether there is less than wanted."""
    return have < wanted
