"""Structured results: answers as data that fits a JSON schema."""

from __future__ import annotations

import json
import re
from typing import Any

from swarm.agent.validation import find_fault, find_remote_reference
from swarm.core.plain import clean, find_unfit, load_json

MAX_CORRECTIONS = 2
"""How often an unfit answer is sent back."""
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
_SHOWN = 500


def result_instructions(schema: dict[str, Any]) -> str:
    """Return an agent's instructions for the form of its answer."""
    return (
        "Your final answer must be one JSON document that is valid for this schema, and nothing else, no text around it:\n"
        + json.dumps(schema, ensure_ascii=False)
    )


def read_result(text: str, schema: dict[str, Any]) -> tuple[Any, str]:
    """Return an answer's data and an empty string, or None and its fault for the agent.

    The document is the whole text or its last fenced block.
    """
    fenced = _FENCED.findall(text)
    document = fenced[-1] if fenced and not text.lstrip().startswith(("{", "[")) else text
    try:
        data = load_json(document)
    except (ValueError, RecursionError) as error:
        return None, f"Your answer is not a JSON document ({error}). {_AGAIN}"
    unfit = find_unfit(data)
    if unfit:
        return None, f"Your answer cannot be used: {unfit}. {_AGAIN}"
    fault = find_fault(data, schema)
    return (None, f"Your answer does not fit the schema: {fault}. {_AGAIN}") if fault else (clean(data), "")


def check_schema(schema: Any) -> str:
    """Explain why a schema cannot be used; empty if it can."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return error.message[:_SHOWN]
    except RecursionError:
        return "it is nested too deeply"
    if reference := find_remote_reference(schema):
        return f"its reference {reference[:_SHOWN]!r} leads out of it, and nothing is fetched; write its target under `$defs`"
    return ""


_AGAIN = "Answer again with the whole corrected document and nothing else."
