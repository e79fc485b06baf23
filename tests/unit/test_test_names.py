"""Test files are found: by names that do not collide, and by head lines that say which modules they test.

A head line is a paragraph of a test file's docstring: "Tests of swarm/core/ids.py, docs." Its paths begin at the top of the project.

Tests of tests.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

from tests.code import parse

TOP = Path(__file__).parents[2]
TESTS = [
    path for path in sorted((TOP / "tests").rglob("test_*.py")) if not path.is_relative_to(TOP / "tests" / "outside")
]
PRODUCT = ("swarm", "tasks", "mailbox")


@cache
def named(path: Path) -> list[str]:
    """Return the paths of a test file's head line."""
    said = ast.get_docstring(parse(path)) or ""
    heads = [" ".join(part.split()) for part in said.split("\n\n") if part.startswith("Tests of ")]
    return [name for head in heads for name in head.removeprefix("Tests of ").rstrip(".").split(", ")]


def test_no_two_test_files_outside_of_packages_have_one_name() -> None:
    """Pytest imports them by their names alone, so two with one name keep each other from being run."""
    names = Counter(file.name for file in TESTS if not (file.parent / "__init__.py").exists())
    assert [name for name, count in names.items() if count > 1] == []


def test_each_test_file_says_what_it_tests() -> None:
    assert [str(path.relative_to(TOP)) for path in TESTS if not named(path)] == []


def test_head_lines_name_what_there_is() -> None:
    missing = [
        f"{path.relative_to(TOP)}: {name}" for path in TESTS for name in named(path) if not (TOP / name).exists()
    ]
    assert missing == [], "where did they go? correct these head lines"


def test_each_module_is_in_a_head_line() -> None:
    heads = {name for path in TESTS for name in named(path)}
    modules = {
        str(path.relative_to(TOP))
        for folder in PRODUCT
        for path in (TOP / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    # `swarm/tasks` and `swarm/mailbox` are links to the folders of these names.
    modules = {name for name in modules if not name.startswith(("swarm/tasks/", "swarm/mailbox/"))}
    assert sorted(modules - heads) == [], "name each in the docstring of the file that tests it, or write its test"
