"""Reads workflows in files: Python and JavaScript for a sandbox, in `.swarm/workflows` and `.claude/workflows`."""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import Literal

from swarm.definitions.model import AgentDefinition, WorkflowProgram
from swarm.definitions.sources import ReadResult, Unusable, read_text, show_path

LANGUAGES: dict[str, Literal["python", "javascript"]] = {".py": "python", ".js": "javascript", ".mjs": "javascript"}
WRITTEN = "script"
"""Name of a workflow that a model wrote in a call."""
_KEY = r"\b{}\s*:\s*(?:'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"|`([^`]*)`)"


def read_workflow(path: Path) -> ReadResult:
    """Read a workflow's file. Its program is not run."""
    try:
        return ReadResult(definitions=[make_definition(read_text(path), path.suffix, path.stem, show_path(path))])
    except Unusable as error:
        return ReadResult(problems=[error.as_problem(path)])


def make_definition(source: str, suffix: str, name: str, place: str) -> AgentDefinition:
    """Make a definition of a program's text. Raises `Unusable`."""
    language = LANGUAGES[suffix]
    described = _docstring(source) if language == "python" else _key(source, "description")
    if language == "javascript":
        name = _key(source, "name") or name
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    program = WorkflowProgram(language=language, home=place, digest=digest, source=source)
    try:
        return AgentDefinition(
            name=re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64],
            description=(described or f"The workflow {name}.")[:4_000],
            prompt="",
            workflow=program,
            source=place,
        )
    except ValueError as error:
        raise Unusable(
            f"{name!r} is no name for a workflow", "Name the file with letters, digits, `_` and `-`"
        ) from error


def _docstring(source: str) -> str:
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise Unusable(
            f"it is no Python: {error.msg}", "Correct it; `swarm workflows check` tells more", error.lineno
        ) from error
    for function in module.body:
        if isinstance(function, ast.AsyncFunctionDef) and any(map(_is_native, function.decorator_list)):
            raise Unusable(f"{function.name} is a native workflow", "Name its module in SWARM_TOOLS", function.lineno)
    return ast.get_docstring(module) or ""


def _is_native(decorator: ast.expr) -> bool:
    """Report whether a decorator is `@workflow`, also with options or below a module's name."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) == "workflow"


def _key(source: str, key: str) -> str:
    found = re.search(_KEY.format(key), source[:20_000])
    return next((group for group in found.groups() if group is not None), "") if found else ""
