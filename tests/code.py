"""The project's Python code as trees, each module parsed once however many tests look at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parse(path: Path) -> ast.Module:
    """A module's tree; nobody may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a module."""
    return list(ast.walk(parse(path)))
