"""The OpenAPI document, made from operations. Format: https://spec.openapis.org/oas/v3.1.0."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from swarm.client.failures import Failure
from swarm.client.operations import Operation

_PLACE = "#/components/schemas/{model}"


def describe(operations: Sequence[Operation], prefix: str) -> dict[str, Any]:
    """The whole document."""
    import swarm

    used: list[tuple[Any, JsonSchemaMode]] = [(Failure, "serialization")]
    for one in operations:
        used.append((one.returns, "serialization"))
        if _has_body(one):
            used.append((one.takes, "validation"))
    references, definitions = models_json_schema(list(dict.fromkeys(used)), ref_template=_PLACE)
    schemas = definitions.get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        path = prefix + re.sub(r":\w+", "", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, references)
        if _has_body(one):
            # Fields of the path are described once.
            _drop(schemas[references[(one.takes, "validation")]["$ref"].rpartition("/")[2]], one.parameters)
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
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "`swarm keys add` makes one."}
            },
        },
    }


def _has_body(one: Operation) -> bool:
    return one.method == "POST" and bool(one.content)


def _drop(schema: dict[str, Any], names: Sequence[str]) -> None:
    schema["properties"] = {name: one for name, one in schema["properties"].items() if name not in names}
    schema["required"] = [name for name in schema.get("required", ()) if name not in names]


def _operation(one: Operation, references: Mapping[Any, Any]) -> dict[str, Any]:
    media = "text/event-stream" if one.streams else "application/json"
    operation: dict[str, Any] = {
        "operationId": one.name,
        "summary": re.split(r"(?<=[.:;])\s", one.description)[0].rstrip(".:;"),
        "description": f"{one.description} Scope of the key: `{one.scope}`.",
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
    if _has_body(one):
        schema = references[(one.takes, "validation")]
        operation["requestBody"] = {
            "required": any(one.content.values()),
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _parameters(one: Operation) -> list[dict[str, Any]]:
    schemas, headers = one.takes.model_json_schema().get("properties", {}), one.headers or {}
    places = dict.fromkeys(one.parameters, "path")
    if one.method == "GET":
        places |= dict.fromkeys(one.content.keys() - headers.values(), "query")
    found = [
        {"name": name, "in": place, "required": place == "path" or one.content[name], "schema": schemas[name]}
        for name, place in places.items()
    ]
    return found + [
        {"name": header, "in": "header", "schema": {"type": "string", "description": schemas[name]["description"]}}
        for header, name in headers.items()
    ]
