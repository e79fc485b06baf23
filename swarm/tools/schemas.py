"""JSON schemas of tools' parameters, each with its description for a model: `string("The text.", minLength=1)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Schema = dict[str, Any]


def _of_type(kind: str, **fixed: Any) -> Callable[..., Schema]:
    return lambda description, **more: {"type": kind, **fixed, **more, "description": description}


string, boolean, integer, number = map(_of_type, ("string", "boolean", "integer", "number"))
strings = _of_type("array", items={"type": "string"})


def choice(options: Iterable[str], description: str) -> Schema:
    """One of these texts."""
    return {"enum": list(options), "description": description}
