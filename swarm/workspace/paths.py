"""Turn a path that a model gave into one inside the workspace, or refuse it.

Guarantee: a path that `resolve_path` returns was, at that moment, free of symbolic links and inside the workspace.
Another process may change that a moment later; `swarm.workspace.files` opens such paths so that it does not matter.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from swarm.core.errors import ToolError
from swarm.definitions.plugins.words import FOLDERS

OUTPUT_PREFIX = "output:"
SKILL_PREFIX = "$SWARM_SKILLS/"
"""Prefix of skills' files in every tool; a command has it as a variable."""
PLUGIN_PREFIX = f"${FOLDERS}/"
"""Prefix of plugins' files."""


def is_output(given: str) -> bool:
    """Whether `given` is the handle of kept text (`output:KEY`) instead of a file's path."""
    return given.startswith(OUTPUT_PREFIX)


def is_carried(given: str) -> bool:
    """Whether `given` is a file of a skill or a plugin instead of one of the workspace."""
    return given.startswith((SKILL_PREFIX, PLUGIN_PREFIX))


def resolve_path(workspace: Path, given: str) -> Path:
    """Follow `given`, relative to the workspace or absolute, through every link; it need not exist.

    Raises `ToolError` if it ends outside the workspace.
    """
    if not given.strip():
        raise ToolError("the path is empty; give one inside the workspace")
    if "\0" in given:
        raise ToolError("the path contains a NUL character")
    try:
        resolved = Path(os.path.realpath(workspace / given))
    except (OSError, ValueError) as error:
        raise ToolError(f"cannot follow the path {given!r}: {error}") from error
    if not resolved.is_relative_to(workspace):
        leads = "" if os.path.normpath(workspace / given) == str(resolved) else f" (it leads to {resolved})"
        raise ToolError(f"{given!r} is outside the workspace{leads}; only paths below {workspace} can be used")
    return resolved


def shown(workspace: Path, path: Path) -> str:
    """`path` as an agent reads it: relative to the workspace."""
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def refuse_git_internals(workspace: Path, path: Path) -> None:
    """Raise `ToolError` if `path` is Git's own data: a hook or a config there would run as another user's command."""
    if any(part.casefold() == ".git" for part in path.relative_to(workspace).parts):
        raise ToolError(f"{shown(workspace, path)} belongs to Git itself and is not edited; use git commands")


def current_mtimes(workspace: Path, given: Iterable[str]) -> dict[str, int]:
    """Resolved path → mtime in ns of those of `given` that are files now: rebuilds `ToolContext.files_read`."""
    found: dict[str, int] = {}
    for name in given:
        if is_output(name):
            continue
        try:
            path = resolve_path(workspace, name)
            found[str(path)] = path.lstat().st_mtime_ns
        except (OSError, ToolError):
            continue
    return found
