"""Reads `@type …` at the beginning of a person's text, which addresses an agent of that type."""

from __future__ import annotations

import re

from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import TYPE_NAME

_ADDRESSED = re.compile(rf"\s*@({TYPE_NAME})[:,]?\s+(\S.*)", re.DOTALL)


def split_address(text: str, catalogue: Catalogue) -> tuple[str, str]:
    """Return the addressed type and the rest of the text; an empty type and the whole text if no known type is named.

    So `@src/app.py is broken` and `@alice said` stay unchanged.
    """
    found = _ADDRESSED.match(text)
    if found is None:
        return "", text
    name = catalogue.find_name(found[1])
    return (name, found[2]) if name is not None else ("", text)


def ask_for_agent(text: str, catalogue: Catalogue) -> str:
    """Turn a person's `@type …` into a request to start an agent of that type; other text stays unchanged."""
    name, task = split_address(text, catalogue)
    if name not in {one.name for one in catalogue.for_spawning()}:
        return text
    return (
        f"Start an agent of the type {name} on this (Agent with subagent_type {name}; its prompt must hold all that it needs), and report "
        f"its result:\n\n{task}"
    )
