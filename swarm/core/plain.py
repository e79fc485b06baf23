"""Text and data that can be stored, sent and read again, whatever their source.

Stored data is UTF-8 and JSON that every part of the swarm can read. Half a surrogate pair becomes U+FFFD, and two matching halves become
one character. Data that is nested too deeply becomes a note, a number that JSON lacks becomes null.
"""

from __future__ import annotations

import json
import math
from operator import is_
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel

MAX_DEPTH = 100
"""Greatest depth of nested data. Readers of JSON stop somewhere between 255 and 1,000."""
TOO_DEEP = "(nested too deeply to be kept)"

Kept = TypeVar("Kept")


_AS_THEY_ARE = frozenset({type(None), bool, int})


def clean_text(text: str) -> str:
    """Return the text without parts that UTF-8 cannot express."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean(value: Kept) -> Kept:
    """Return data or a model in storable form; the same object if nothing had to change."""
    return _clean(value, 0)  # type: ignore[no-any-return]


def load_json(text: str) -> Any:
    """Parse JSON. Raises `ValueError`, also for a number that JSON lacks, and `RecursionError`."""
    return json.loads(text, parse_constant=_refuse_constant)


def find_unfit(data: Any) -> str:
    """Explain why data from JSON cannot be used unchanged; empty if it can."""
    level = [data]
    for _ in range(MAX_DEPTH):
        if any(isinstance(one, float) and not math.isfinite(one) for one in level):
            return "it holds a number that is too large"
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return ""
    return f"it is nested more than {MAX_DEPTH} levels deep"


def _clean(value: Any, depth: int) -> Any:
    # Most parts are numbers or ASCII text, so the loops below pass over them without a call.
    if value.__class__ in _AS_THEY_ARE:
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, BaseModel):
        return _clean_model(value, depth)
    if not isinstance(value, dict | list | tuple):
        return clean_text(str(value))
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, dict):
        return _clean_dict(value, depth + 1)
    items = [one if one.__class__ in _AS_THEY_ARE else _clean(one, depth + 1) for one in value]
    return value if all(map(is_, items, value)) else type(value)(items)


def _clean_model(value: BaseModel, depth: int) -> BaseModel:
    fields = value.__dict__ if value.model_extra is None else dict(value)
    changed = {
        name: new
        for name, old in fields.items()
        if not (old.__class__ in _AS_THEY_ARE or (old.__class__ is str and old.isascii()))
        and (new := _clean(old, depth)) is not old
    }
    return value.model_copy(update=changed) if changed else value


def _clean_dict(value: dict[Any, Any], depth: int) -> dict[Any, Any]:
    pairs = {
        (key if key.__class__ is str and key.isascii() else clean_text(str(key))): one
        if one.__class__ in _AS_THEY_ARE or (one.__class__ is str and one.isascii())
        else _clean(one, depth)
        for key, one in value.items()
    }
    same = len(pairs) == len(value) and all(map(is_, pairs, value))
    return value if same and all(map(is_, pairs.values(), value.values())) else pairs


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON can hold")
