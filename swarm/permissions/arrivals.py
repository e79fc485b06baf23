"""What of the changes that come home from a copy is not to come unasked: links that lead out, and what programs outside obey.

An agent works on a copy in its sandbox. What it leaves there is harmless until it lies in the person's folder, where an editor, git or
another agent obeys it, and where a program follows a link.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from swarm.permissions.path_rules import is_inside, is_protected
from swarm.workspace.changes_applied import LINK, Change

Content = Callable[[Change], bytes]


def find_arrivals(changes: Sequence[Change], folder: Path, content_of: Content) -> dict[str, str]:
    """The paths that a person is asked about before they are changed in the folder, each with the reason."""
    found = find_leading_out(changes, folder, content_of)
    for change in changes:
        if change.path not in found and is_protected(str(folder / change.path), folder):
            found[change.path] = "programs outside of the sandbox obey it"
    return found


def find_leading_out(changes: Sequence[Change], folder: Path, content_of: Content) -> dict[str, str]:
    """The links among the changes that lead out of the folder, or to what programs obey, each with where it leads."""
    targets = {one.path: os.fsdecode(content_of(one)) for one in changes if one.new_mode == LINK}
    return {path: f"a link to {target}" for path, target in targets.items() if _leads_out(path, target, folder)}


def _leads_out(path: str, target: str, folder: Path) -> bool:
    there = str((folder / path).parent / target)
    # A `..` after a name goes up from wherever that name leads: what comes of it depends on other links.
    names = list(PurePosixPath(target).parts)
    while names and names[0] == "..":
        names.pop(0)
    named = os.path.normpath(there)
    inside = named == str(folder) or named.startswith(f"{folder}/")
    return ".." in names or not inside or not is_inside(there, folder) or is_protected(named, folder)


def spread(paths: dict[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """The same with what cannot be changed without them: what lies in such a path, or makes room for it."""
    found = dict(paths)
    for change in changes:
        near = (one for one in paths if one.startswith(f"{change.path}/") or change.path.startswith(f"{one}/"))
        if change.path not in found and (one := next(near, None)):
            found[change.path] = f"it goes with {one}"
    return found
