"""Structured results: reading an answer as data that fits a JSON schema. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_CORRECTIONS = 2
"""How often an answer that does not fit is sent back."""
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
_SHOWN = 500


def result_instructions(schema: dict[str, Any]) -> str:
    """What an agent is told about the form of its answer."""
    return (
        "Your final answer must be one JSON document that is valid for this schema, and nothing else, no text around it:\n"
        + json.dumps(schema, ensure_ascii=False)
    )


def read_result(text: str, schema: dict[str, Any]) -> tuple[Any, str]:
    """The data in an answer and an empty string; or None and what is wrong with it, as a message to the agent.

    The whole text is the document, or the last fenced block in it is.
    """
    fenced = _FENCED.findall(text)
    try:
        data = json.loads(fenced[-1] if fenced and not text.lstrip().startswith(("{", "[")) else text)
    except (ValueError, RecursionError) as error:
        return None, f"Your answer is not a JSON document ({error}). {_AGAIN}"
    fault = _find_fault(data, schema)
    return (None, f"Your answer does not fit the schema: {fault}. {_AGAIN}") if fault else (data, "")


def check_schema(schema: Any) -> str:
    """What is wrong with a schema; empty when it can be used."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return error.message[:_SHOWN]
    return ""


def _find_fault(data: Any, schema: dict[str, Any]) -> str:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    try:
        error = best_match(Draft202012Validator(schema).iter_errors(data))
    except Exception as broken:  # a schema may refer to what does not exist
        return f"the schema itself cannot be applied ({type(broken).__name__})"
    if error is None:
        return ""
    where = error.json_path.removeprefix("$").removeprefix(".")
    return f"{f'at {where}: ' if where else ''}{error.message[:_SHOWN]}"


_AGAIN = "Answer again with the whole corrected document and nothing else."
