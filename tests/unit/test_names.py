"""Class names mean one thing: two modules do not define classes of one name.

Tests of swarm.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.code import nodes

TOP = Path(__file__).parents[2]
SHARED = {
    # The asyncio client mirrors the synchronous one.
    *("Job", "Map", "Swarm"),
    # A function of a user gets a context of its own; the runtime's tools get theirs.
    "ToolContext",
    # Events of the public stream are named like what they report.
    *("ModelFailed", "Prompt", "QuestionClosed", "Reply", "ToolResult"),
}
"""Names that users know from two places."""


@cache
def homes() -> dict[str, set[str]]:
    """Return the modules that define each class name; a leading underscore does not make another name."""
    found = defaultdict(set)
    for folder in ("swarm", "tasks", "mailbox"):
        for path in (TOP / folder).rglob("*.py"):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef):
                    found[node.name.lstrip("_")].add(str(path.resolve().relative_to(TOP)))
    return found


def test_no_two_modules_define_classes_of_one_name() -> None:
    assert {name: sorted(paths) for name, paths in homes().items() if len(paths) > 1 and name not in SHARED} == {}


def test_each_shared_name_is_still_shared() -> None:
    assert {name for name in SHARED if len(homes()[name]) < 2} == set()
