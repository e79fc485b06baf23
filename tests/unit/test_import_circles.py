"""No module needs itself to be imported: import-linter orders the folders, and this the modules in them.

Tests of mailbox, swarm, tasks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from tests.code import parse

ROOT = Path(__file__).resolve().parents[2]


def test_modules_can_be_imported_in_some_order() -> None:
    modules = {_name(path): path for folder in ("swarm", "tasks", "mailbox") for path in (ROOT / folder).rglob("*.py")}
    needs = {name: set(_imported(parse(path).body, modules)) - {name} for name, path in modules.items()}
    assert len(needs) > 300
    # Raises `CycleError`, which names the modules of a circle.
    assert len(list(TopologicalSorter(needs).static_order())) == len(needs)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    dotted = ".".join(parts).removesuffix(".__init__")
    return dotted if parts[0] == "swarm" else f"swarm.{dotted}"


def _imported(body: list[ast.stmt], modules: dict[str, Path]) -> Iterator[str]:
    """The modules that are imported where this is, not within functions and not for types alone."""
    for statement in body:
        match statement:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name in modules)
            case ast.ImportFrom(module=str(module), names=names):
                parts = {one.name: f"{module}.{one.name}" for one in names}
                yield from (part for part in parts.values() if part in modules)
                if module in modules and not all(part in modules for part in parts.values()):
                    yield module
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=other):
                yield from _imported(other, modules)
            case ast.If(body=then, orelse=other) | ast.Try(body=then, orelse=other):
                yield from _imported([*then, *other], modules)
