"""Finds changes from an agent's copy that need an approval: links that lead out, and files that programs outside obey.

An agent works on a copy in its sandbox. Its files are harmless there. In the person's folder, an editor, git or another agent can obey
them, and a program can follow a link.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from swarm.permissions.path_rules import is_inside, is_protected
from swarm.workspace.changes_applied import LINK, Change

Content = Callable[[Change], bytes]


def find_arrivals(changes: Sequence[Change], folder: Path, content_of: Content) -> dict[str, str]:
    """Return the paths whose change needs a person's approval, each with the reason."""
    found = find_leading_out(changes, folder, content_of)
    for change in changes:
        if change.path not in found and is_protected(str(folder / change.path), folder):
            found[change.path] = "programs outside of the sandbox obey it"
    return found


def find_leading_out(changes: Sequence[Change], folder: Path, content_of: Content) -> dict[str, str]:
    """Return changed links that lead out of the folder or to files that programs obey, each with its target."""
    targets = {one.path: os.fsdecode(content_of(one)) for one in changes if one.new_mode == LINK}
    return {path: f"a link to {target}" for path, target in targets.items() if _leads_out(path, target, folder)}


def _leads_out(path: str, target: str, folder: Path) -> bool:
    there = str((folder / path).parent / target)
    # A `..` after a name goes up from the target of that name, which depends on other links.
    names = list(PurePosixPath(target).parts)
    while names and names[0] == "..":
        names.pop(0)
    named = os.path.normpath(there)
    inside = named == str(folder) or named.startswith(f"{folder}/")
    return ".." in names or not inside or not is_inside(there, folder) or is_protected(named, folder)


def spread(paths: dict[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """Add the changes that depend on these paths: changes inside such a path, or of its parents."""
    found = dict(paths)
    for change in changes:
        near = (one for one in paths if one.startswith(f"{change.path}/") or change.path.startswith(f"{one}/"))
        if change.path not in found and (one := next(near, None)):
            found[change.path] = f"it goes with {one}"
    return found
