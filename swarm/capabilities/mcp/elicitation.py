"""Turn a server's question into a question of the swarm, and a person's answer into the server's form. Pure.

A form with one field takes the answer's text itself. One with several takes lines `name: value`, or a JSON object. `decline` and `cancel`
keep their meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swarm.store.questions import MAX_DETAIL_CHARACTERS, Ask

DECLINE, CANCEL, ROOTS = {"action": "decline"}, {"action": "cancel"}, {"action": "roots"}
TRIES = 3
"""How often a form is shown before an unreadable answer counts as declined."""
_TITLE_CHARACTERS = 200
_YES, _NO = ("yes", "true", "y", "1", "on"), ("no", "false", "n", "0", "off")
_REFUSALS = {"decline": DECLINE, "deny": DECLINE, "cancel": CANCEL}


def make_ask(server: str, tool: str, request: Mapping[str, Any], *, seconds: float, fault: str = "") -> Ask:
    """Make the question of a server's request; `fault` describes the error in the last answer."""
    fields = _fields(request)
    lines = [f"The MCP server {server} asks: {request['message']}"]
    lines += [f"The last answer cannot be used: {fault}"] if fault else []
    options: list[str] = []
    if request["mode"] == "url":
        lines += [f"It wants you to open {request['url']} and to say when you are done."]
        options = ["done", "decline"]
    elif len(fields) == 1:
        [(name, schema)] = fields.items()
        options = [*_choices(schema), "decline"] if _choices(schema) else []
        lines += [] if options else [f"Answer with {_describe(name, schema, request)}, or decline."]
    elif fields:
        lines += ["Answer with a line `name: value` for each, or decline:"]
        lines += [f"  {_describe(name, schema, request)}" for name, schema in fields.items()]
    else:
        options = ["accept", "decline"]
    detail = "\n".join([*lines, *(f"- {option}" for option in options)])
    # Without choices the last line must not look like one.
    detail = detail if options else f"{detail}\n"
    return Ask(
        kind="question",
        tool=tool,
        title=" ".join(f"{server}: {request['message']}".split())[:_TITLE_CHARACTERS],
        detail=detail[:MAX_DETAIL_CHARACTERS],
        seconds=seconds,
    )


def describe_request(server: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a server's question for hooks."""
    told = {"mcp_server_name": server, "message": request["message"], "mode": request["mode"]}
    return told | ({"url": request["url"]} if request["mode"] == "url" else {"requested_schema": request["schema"]})


def read_answer(request: Mapping[str, Any], words: str) -> dict[str, Any]:
    """Read a person's answer as the server's. Raises `ValueError` that names the unusable part."""
    said = words.strip()
    if said.lower() in _REFUSALS:
        return _REFUSALS[said.lower()]
    fields = _fields(request)
    if request["mode"] == "url" or not fields:
        return {"action": "accept", **({"content": {}} if request["mode"] == "form" else {})}
    given = _read_given(fields, said)
    unknown = [name for name in given if name not in fields]
    if unknown:
        raise ValueError(f"there is no field {unknown[0]!r}; the fields are {', '.join(fields)}")
    missing = [name for name in request["schema"].get("required", ()) if name not in given]
    if missing:
        raise ValueError(f"{', '.join(missing)} is missing")
    return {"action": "accept", "content": {name: _coerce(name, fields[name], value) for name, value in given.items()}}


def _fields(request: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return dict((request.get("schema") or {}).get("properties") or {})


def _read_given(fields: Mapping[str, Any], said: str) -> dict[str, Any]:
    if said.startswith("{"):
        try:
            return dict(json.loads(said))
        except ValueError as error:
            raise ValueError(f"it begins like JSON but is invalid ({error})") from None
    if len(fields) == 1:
        [name] = fields
        return {name: said.removeprefix(f"{name}:").strip()}
    lines = [line.partition(":") for line in said.splitlines() if line.strip()]
    if wrong := [line for line, colon, _ in lines if not colon]:
        raise ValueError(f"{wrong[0]!r} is not a line `name: value`")
    return {name.strip(" -"): value.strip() for name, _, value in lines if value.strip()}


def _choices(schema: Mapping[str, Any]) -> list[str]:
    if schema.get("type") == "boolean":
        return ["yes", "no"]
    return [str(value) for value in schema.get("enum") or [one["const"] for one in schema.get("oneOf") or ()]]


def _describe(name: str, schema: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    items = schema.get("items") or {}
    choices = _choices(schema) or [
        str(value) for value in items.get("enum") or [one["const"] for one in items.get("anyOf") or ()]
    ]
    kind = "several, separated by commas, of " if schema.get("type") == "array" else ""
    said = [f"{kind}{' | '.join(choices)}" if choices else str(schema.get("format") or schema.get("type", "text"))]
    said += [str(schema["description"])] if schema.get("description") else []
    if name not in request["schema"].get("required", ()):
        default = f", else {schema['default']}" if "default" in schema else ""
        said.append(f"optional{default}")
    return f"{name}: {'; '.join(said)}"


def _coerce(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    kind = schema.get("type")
    try:
        if kind == "boolean" and isinstance(value, str):
            word = value.lower()
            return {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}[word]
        if kind == "integer":
            return int(value)
        if kind == "number":
            return float(value)
        if kind == "array" and isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{name} must be {'yes or no' if kind == 'boolean' else f'of the type {kind}'}, not {value!r}"
        ) from None
    choices = _choices(schema)
    if choices and str(value) not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return str(value) if kind == "string" else value
