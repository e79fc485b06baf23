"""An agent that is denied the same thing again and again: it is told once how to go on, and stopped if it does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping

TOLD_AT = 3
"""Denials of one kind in a run, with the last of which it is told …"""
STOPPED_AT = 6
"""… and after which it is stopped: what it spends from there on is lost."""
_MAX_KEY = 200


def key_of(tool: str, about: str) -> str:
    """What denials have in common: the tool, and the rule that denied it, or else what the call was about."""
    return f"{tool} {' '.join(about.split())}".strip()[:_MAX_KEY]


def advise(count: int) -> str:
    """What is added to the words of the `count`th denial of one kind; mostly nothing."""
    if count != TOLD_AT:
        return ""
    return (
        f" This is the {TOLD_AT}rd time, and it will not be allowed: do not try it again in other words. Do what can be done without it; "
        f"if nothing can, end now and say what is needed. After {STOPPED_AT} times you are stopped."
    )


def note_stubborn(denials: Mapping[str, int]) -> str:
    """Why an agent is stopped; empty if it is not."""
    kind = next((kind for kind, count in denials.items() if count >= STOPPED_AT), "")
    return f"it was stopped, for it tried {STOPPED_AT} times what is denied: {kind}" if kind else ""
