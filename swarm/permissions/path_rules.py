"""Path patterns of rules: the syntax of `.gitignore`, with anchors for the base folder.

`//etc/x` is absolute, `~/x` lies below the home of this process's user, `/x` lies below the workspace. A bare pattern works
as in a `.gitignore` at the workspace's root; so does `./x` to deny or ask, while to allow it is `/x`. A link counts by its
name and by its target: to allow, a pattern must match both; to deny or ask, one is enough.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from swarm.permissions.sandbox.host import git_settings, package_folders, python_folders
from swarm.permissions.sandbox.names import lies_in_obeyed
from swarm.permissions.sandbox.obeyed import named_paths

_CHILD = "\ue000"
"""Placeholder for any file in a folder."""
_SINGLE_SEGMENT = re.compile(r"[^/]+/\*\*")


@dataclass(frozen=True)
class PathPattern:
    """One compiled pattern; `regex` is for paths relative to `base`."""

    base: str
    regexes: tuple[re.Pattern[str], ...]

    def matches(self, path: str, *, broad: bool, folder: bool) -> bool:
        """Report whether an absolute path without `..` matches; with `broad`, a folder matches if a file in it could."""
        for base in {self.base, _real_base(self.base)}:
            prefix = base.rstrip("/") + "/"
            if path != base and not path.startswith(prefix):
                continue
            relative = path[len(prefix) :]
            candidates = [relative]
            if broad:
                candidates.append(f"{relative}/")
            if broad and folder:
                candidates.append(f"{relative}/{_CHILD}" if relative else _CHILD)
            if broad and not relative.isascii():
                # Accented letters have two forms, and systems that exchange files choose different ones.
                candidates += [normalize("NFC", each) for each in candidates]
            if any(regex.match(candidate) for regex in self.regexes for candidate in candidates):
                return True
        return False

    def may_reach(self, folder: str) -> bool:
        """Report whether any path in a folder can match: the folder lies below the base, or the base below the folder."""
        bases = [Path(base) for base in (self.base, _real_base(self.base))]
        return any(base.is_relative_to(folder) or Path(folder).is_relative_to(base) for base in bases)


def compile_paths(spec: str, workspace: Path, *, broad: bool) -> PathPattern:
    """Compile the spec of a path rule; `broad` for rules that deny or ask. Raises `ValueError`."""
    return _compile(spec, str(workspace), broad, os.path.expanduser("~") if spec.startswith("~") else "")


@functools.lru_cache(maxsize=4096)
def _compile(spec: str, workspace: str, broad: bool, home: str) -> PathPattern:
    base, pattern = _anchor(spec.strip(), workspace, home, broad)
    lines = [pattern]
    # To forbid, `src/**` covers folders of that name at every depth; to allow, only the one at the top.
    if broad and base == workspace and _SINGLE_SEGMENT.fullmatch(pattern):
        lines.append(f"**/{pattern}")
    if broad:
        lines += [form for line in lines if (form := normalize("NFC", line)) != line]
    return PathPattern(base, tuple(_as_regex(line) for line in lines))


def _anchor(spec: str, workspace: str, home: str, broad: bool) -> tuple[str, str]:
    if spec.startswith("//"):
        return "/", "/" + spec.lstrip("/")
    if spec == "~" or spec.startswith("~/"):
        return home, spec[1:] or "/"
    if spec.startswith("./"):
        return workspace, spec[2:] if broad else spec[1:]
    base = workspace
    while spec.startswith("../"):
        base, spec = os.path.dirname(base), spec[3:]
        if not spec.startswith("../"):
            spec = f"/{spec}"
    return base, spec


def _as_regex(line: str) -> re.Pattern[str]:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if line.startswith("!"):
        raise ValueError("a pattern cannot be negated with `!`")
    if "\n" in line or "\0" in line:
        raise ValueError("a pattern is one line")
    line = "/**" if line.strip("/") == "" else line
    pattern = GitIgnoreSpecPattern(f"\\{line}" if line.startswith("#") else line)
    if pattern.regex is None or not pattern.include:
        raise ValueError("it is not a pattern as in a .gitignore")
    regex: re.Pattern[str] = pattern.regex
    return regex


def check_path_spec(spec: str) -> None:
    """Raise `ValueError` with the reason if `spec` is not a path pattern."""
    if spec.startswith("~") and spec != "~" and not spec.startswith("~/"):
        raise ValueError("the home of another user cannot be named")
    _compile(spec, "/workspace", True, "/home")


def matches_path(spec: str, given: str, *, workspace: Path, broad: bool, folder: bool = False) -> bool:
    """Report whether a pattern matches a path in a call.

    With `broad`, for rules that deny or ask, the name or its target must match; otherwise both. `folder` is
    for tools that search below the path.
    """
    pattern = compile_paths(spec, workspace, broad=broad)
    named, real = locate(given, workspace)
    matches = (pattern.matches(path, broad=broad, folder=folder) for path in {named, real})
    return any(matches) if broad else all(matches)


def locate(given: str, workspace: Path) -> tuple[str, str]:
    """Return a path as written and with links resolved, both absolute."""
    if given == "~" or given.startswith("~/"):
        given = os.path.expanduser(given)
    joined = os.path.join(workspace, given.replace("\0", _CHILD))
    return os.path.normpath(joined), _real(joined)


def is_inside(given: str, folder: Path, start: Path | None = None) -> bool:
    """Report whether a path, links resolved, lies in the folder; a relative path begins at `start` or the folder."""
    real, root = locate(given, start or folder)[1], _real_base(str(folder))
    return real == root or real.startswith(root.rstrip("/") + "/")


def is_protected(given: str, workspace: Path) -> bool:
    """Report whether other tools or this project obey the content of that file."""
    root = _real_base(str(workspace)).rstrip("/") + "/"
    named = _named_by_git(workspace)
    for path in locate(given, workspace):
        below = path.removeprefix(root).removeprefix(str(workspace).rstrip("/") + "/")
        if ".git" in below.casefold().split("/") or lies_in_obeyed(below):
            return True
        if path.startswith(root) and any(_lies_in(path, root, word) for word in named):
            return True
    real = Path(locate(given, workspace)[1])
    return any(real.is_relative_to(folder) for folder in (*package_folders(), *python_folders()))


def _named_by_git(workspace: Path) -> list[str]:
    """Return the paths that git's settings name, if the workspace is a repository or lies in one."""
    if not any(os.path.lexists(folder / ".git") for folder in (workspace, *workspace.parents)):
        return []
    return [word for key, value in git_settings(workspace) for word in named_paths(key, value)]


def _lies_in(path: str, root: str, named: str) -> bool:
    """Report whether a file is the named one or lies in it. A relative name counts below each folder, a possible repository."""
    wanted = os.path.normpath(named).casefold()
    if not os.path.isabs(named):
        return f"/{wanted}/" in f"/{path.removeprefix(root)}/".casefold()
    return wanted.startswith(root.casefold()) and f"{path}/".casefold().startswith(f"{wanted}/")


def escape_path(path: str) -> str:
    """Return the pattern that matches exactly this path."""
    return re.sub(r"([\\*?\[\]!# ])", r"\\\1", path)


@functools.lru_cache(maxsize=256)
def _real_base(path: str) -> str:
    """Resolve a workspace or home, cached because its place does not change while an agent runs in it."""
    return _real(path)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return os.path.normpath(path)
