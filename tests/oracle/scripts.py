"""Run other people's scripts for Claude Code's workflows: their agents are answered from their schemas, and nothing is started.

`python -m tests.oracle.scripts FOLDER [ARGS]` runs each script below a folder, and tells its agents and its end. ARGS is a JSON document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.definitions.workflow_files import make_definition
from swarm.workflows.trial import Tried, TriedCall, try_workflow

_DEEPEST = 12
_ITEMS = 2
"""Items of each array that a schema does not bound."""


def answer(call: TriedCall) -> Any:
    """Answer an agent with data for its schema, or with a text."""
    schema = call.given.get("result_schema")
    return f"An answer to {call.prompt[:40]}" if schema is None else sample(schema, schema)


def sample(schema: Any, whole: Mapping[str, Any], deep: int = 0) -> Any:
    """Return data that a JSON schema allows: each property, the first choice, few items."""
    if not isinstance(schema, Mapping) or deep > _DEEPEST:
        return "text"
    if reference := schema.get("$ref"):
        found: Any = whole
        for part in str(reference).lstrip("#/").split("/"):
            found = found[part]
        return sample(found, whole, deep + 1)
    if "const" in schema or "enum" in schema:
        return schema.get("const", next(iter(schema.get("enum", [])), None))
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return sample(schema[name][0], whole, deep + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
    match kind:
        case "object":
            return {name: sample(one, whole, deep + 1) for name, one in schema.get("properties", {}).items()}
        case "array":
            count = max(schema.get("minItems", 0), min(_ITEMS, schema.get("maxItems", _ITEMS)))
            return [sample(schema.get("items", {}), whole, deep + 1) for _ in range(count)]
        case "integer" | "number":
            return schema.get("minimum", schema.get("maximum", 1))
        case "boolean":
            return True
        case "null":
            return None
    return "text".ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 1_000)]


def run_script(path: Path, args: Any = "") -> Tried:
    """Run a script to its end."""
    definition = make_definition(path.read_text(encoding="utf-8"), path.suffix, path.stem, path.name)
    return try_workflow(definition, answer, args)


def main() -> None:
    """Run the scripts of a folder."""
    args = json.loads(sys.argv[2]) if len(sys.argv) > 2 else ""
    for path in sorted(one for one in Path(sys.argv[1]).rglob("*") if one.suffix in (".js", ".mjs")):
        tried = run_script(path, args)
        agents = sum(call.tool == "Agent" for call in tried.calls)
        print(f"{path.relative_to(sys.argv[1])}: {agents} agents{f', {tried.error[:200]}' if tried.error else ''}")


if __name__ == "__main__":
    main()
