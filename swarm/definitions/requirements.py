"""What a definition requires: of the worker that runs it, and of the answer that it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swarm.definitions.sources import Unusable, as_text, show
from swarm.tags import split_tags

_MAX_SKILLS = 50


def read_requirements(keys: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """The fields of a definition that its keys `requires` and `resultSchema` are. Raises `Unusable`."""
    values: dict[str, Any] = {}
    if (required := keys.get("requires")) is not None:
        if isinstance(required, Mapping):
            warnings.append("`requires` is a table, not a list of tags; it is ignored")
        else:
            values["requires"] = _read_tags(required)
    if (schema := keys.get("resultschema")) is not None:
        if not isinstance(schema, Mapping):
            raise Unusable("`resultSchema` is not a table", "Write a JSON schema.")
        try:
            values["result_schema"] = json.loads(json.dumps(schema, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise Unusable("`resultSchema` is not JSON", "Use only texts, numbers, lists and tables in it.") from error
    return values


def _read_tags(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else [value]
    try:
        return split_tags(" ".join(as_text(part) for part in parts))
    except ValueError as error:
        raise Unusable(f"`requires` is {show(value)}: {error}", "Write tags of workers, for example [gpu].") from error


def read_skills(keys: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Names, as a list or parted by commas. Codex's table switches skills on and off, and names none to begin with."""
    given = keys.get("skills")
    if isinstance(given, str):
        given = given.split(",")
    if isinstance(given, list):
        return {"skills": [name for one in given if (name := as_text(one).strip().lstrip("/"))][:_MAX_SKILLS]}
    if given is not None:
        warnings.append("`skills` is no list of names; it has no effect")
    return {}
