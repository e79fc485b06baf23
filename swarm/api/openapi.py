"""The OpenAPI document, made from what the endpoints declare. Format: https://spec.openapis.org/oas/v3.1.0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from swarm.api.endpoint import Endpoint, Failure, Nothing

_PLACE = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    import swarm

    used: list[tuple[Any, JsonSchemaMode]] = [(Failure, "serialization")]
    for one in endpoints:
        used += [(one.returns, "serialization"), (one.body, "validation")]
    references, definitions = models_json_schema(list(dict.fromkeys(used)), ref_template=_PLACE)
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        path = _PARAMETER.sub(r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "swarm",
            "version": swarm.__version__,
            "summary": "A tree of LLM agents that runs on a fleet.",
        },
        "paths": paths,
        "security": [{"key": []}],
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "`swarm keys add` makes one."}
            },
        },
    }


def _operation(one: Endpoint, references: Any) -> dict[str, Any]:
    text = " ".join((one.run.__doc__ or "").split())
    media = "text/event-stream" if one.streams else "application/json"
    operation: dict[str, Any] = {
        "operationId": one.name,
        "summary": re.split(r"(?<=[.:;])\s", text)[0].rstrip(".:;"),
        "description": f"{text} Scope of the key: `{one.scope}`.",
        "parameters": _parameters(one),
        "responses": {
            str(one.status): {
                "description": "Done.",
                "content": {media: {"schema": references[(one.returns, "serialization")]}},
            },
            "default": {
                "description": "Not done, and why.",
                "content": {"application/json": {"schema": references[(Failure, "serialization")]}},
            },
        },
    }
    if one.body is not Nothing:
        required = any(field.is_required() for field in one.body.model_fields.values())
        schema = references[(one.body, "validation")]
        operation["requestBody"] = {"required": required, "content": {"application/json": {"schema": schema}}}
    return operation


def _parameters(one: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(one.path)
    ]
    query = one.query.model_json_schema()
    for name, schema in query.get("properties", {}).items():
        found.append({"name": name, "in": "query", "required": name in query.get("required", ()), "schema": schema})
    for name, meaning in one.headers.items():
        found.append({"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}})
    return found
