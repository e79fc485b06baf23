"""What a definition's agents are held to: the outcome that their work must have, and the rules of those who work through others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from swarm.definitions.model import Outcome, Rule
from swarm.definitions.sources import Unusable, as_text, show

_ALL, _NONE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_WRITTEN = {"check_seconds": "checkTimeout"}


def read_duties(keys: Mapping[str, Any], *, check: str, rubric: str) -> dict[str, Any]:
    """What the keys say of them, as fields of an `AgentDefinition`. Raises `Unusable`."""
    duties: dict[str, Any] = {}
    numbers = {"tries": keys.get("tries"), "check_seconds": keys.get("checktimeout")}
    given = {name: value for name, value in numbers.items() if value is not None}
    if check or rubric:
        duties["outcome"] = _read_outcome({"check": check, "rubric": rubric, **given})
    elif given:
        raise Unusable(
            "there is neither a `check` nor a `rubric`", "Add one, or leave `tries` and `checkTimeout` away."
        )
    if keys.get("coordination") is not None:
        duties["coordination"] = _read_rules(keys["coordination"])
    return duties


def _read_outcome(given: dict[str, Any]) -> Outcome:
    try:
        return Outcome.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        key = _WRITTEN.get(str(first["loc"][0]), str(first["loc"][0]))
        raise Unusable(f"`{key}` cannot be used: {first['msg']}", f"Correct `{key}`.") from error


def _read_rules(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else re.split(r"[,\s]+", as_text(given).strip())
    rules = [as_text(rule).strip().lower().replace("_", "-") for rule in listed]
    if len(rules) == 1 and rules[0] in (*_ALL, *_NONE):
        return list(get_args(Rule)) if rules[0] in _ALL else []
    for rule in rules:
        if rule not in get_args(Rule):
            known = ", ".join(get_args(Rule))
            raise Unusable(f"`coordination` has no rule {show(rule)}", f"Write true, false, or some of: {known}.")
    return list(dict.fromkeys(rules))
