"""Validate a document against a foreign schema, in a process of its own with a time limit.

A pattern may need years for a line of text, and references may multiply at every step; no code in the same process can stop either.
Nothing is ever fetched: a reference leads into the schema itself or nowhere. The process reads `[schema, data]` from its standard
input and writes the fault, or nothing.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

LIMIT_SECONDS = 5
_SHOWN = 500
_MAY_TAKE_LONG = frozenset({"pattern", "patternProperties", "$ref", "$dynamicRef"})
_REFERENCES = ("$ref", "$dynamicRef")


def find_remote_reference(schema: Any) -> str:
    """Return the first reference that leads out of the schema; empty if none does."""
    for key, value in _entries(schema):
        if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            return value
    return ""


def find_fault(data: Any, schema: dict[str, Any]) -> str:
    """Describe the data's first fault by the schema; empty if it fits.

    Returns after about `LIMIT_SECONDS` at the latest.
    """
    if not any(key in _MAY_TAKE_LONG for key, _ in _entries(schema)):
        return _apply(data, schema)
    try:
        ran = subprocess.run(
            # By its path and isolated: neither the current folder nor the environment affects its imports.
            [sys.executable, "-I", os.path.abspath(__file__)],
            input=json.dumps([schema, data]).encode(),
            capture_output=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"the schema could not be applied within {LIMIT_SECONDS} seconds (a pattern in it is too slow for this text)"
    if ran.returncode != 0:
        return "the schema itself cannot be applied"
    return ran.stdout.decode()


def _apply(data: Any, schema: dict[str, Any]) -> str:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry

    try:
        error = best_match(Draft202012Validator(schema, registry=Registry()).iter_errors(data))
    except Exception as broken:  # a schema may refer to what does not exist
        return f"the schema itself cannot be applied ({type(broken).__name__})"
    if error is None:
        return ""
    where = error.json_path.removeprefix("$").removeprefix(".")
    return f"{f'at {where}: ' if where else ''}{error.message[:_SHOWN]}"


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth; without recursion, since models write schemas."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            yield from current.items()
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)


def _main() -> None:
    # The parent may be killed; this process ends all the same.
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS + 1, LIMIT_SECONDS + 1))
    schema, data = json.load(sys.stdin)
    sys.stdout.buffer.write(_apply(data, schema).encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    _main()
