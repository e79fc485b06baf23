"""Sentences are plain: the patterns that CONTRIBUTING names stay rare in docstrings, comments, messages and pages.

Tests of swarm, tasks, mailbox, docs.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.code import nodes

TOP = Path(__file__).parents[2]
PATTERNS = {
    "what is, what they …": (r"\bwhat (?:is|was|were|are|has|had|have|they|the|it|its|each)\b", 60),
    "those that, those who": (r"\bthose (?:that|who)\b", 16),
    "nobody": (r"\bnobody\b", 8),
    "whoever": (r"\bwhoever\b", 2),
    "is told": (r"\b(?:is|are|was|were|be) told\b", 16),
    "is there": (r"\b(?:is|are|was|were|be) there\b", 8),
    "anew": (r"\banew\b", 8),
    "told of": (r"\btold of\b", 2),
    "is over": (r"\b(?:is|are|was|were) over\b", 4),
    "old words": (r"\bbut for\b|\bmanyeth\b|\bsuch a one\b|\bleft away\b|\bas it comes\b|\bso that none\b", 2),
}
"""Each pattern, and how often all files together may have it."""
OPENINGS = re.compile(r"(?:The same|It|Its|Those|By|Whether it|Of|As|With which|Where|Whose|Who|What)\b")
MOST_OPENINGS = 12
"""Docstrings that cannot be read alone, since they begin in the middle of a thought."""


@cache
def texts() -> dict[Path, str]:
    """Return the text of each file that people read."""
    found = [TOP / "README.md", TOP / "ARCHITECTURE.md"]
    for folder in ("swarm", "tasks", "mailbox", "docs"):
        found += sorted((TOP / folder).rglob("*"))
    return {
        path: path.read_text()
        for path in found
        if path.suffix in (".py", ".lua", ".mjs", ".md", ".html") and not {"reference", "vendor"} & set(path.parts)
    }


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_stays_rare(name: str) -> None:
    pattern, most = PATTERNS[name]
    found = [
        f"{path.relative_to(TOP)}:{number}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        for _ in re.finditer(pattern, line, re.IGNORECASE)
    ]
    assert len(found) <= most, f"say it plainly (CONTRIBUTING.md#english): {', '.join(found)}"


def test_docstrings_can_be_read_alone() -> None:
    found = [
        f"{path.relative_to(TOP)}:{statement.lineno}"
        for path, text in texts().items()
        if path.suffix == ".py"
        for node in nodes(path)
        if isinstance(body := getattr(node, "body", None), list)
        for statement in body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        and OPENINGS.match(statement.value.value)
    ]
    assert len(found) <= MOST_OPENINGS, f"give each its subject: {', '.join(found)}"
