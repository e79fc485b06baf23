"""`claudeMdExcludes` of settings files: instruction files that agents are not given.

A person's own settings apply to every file except the administrator's. A workspace's settings apply only to files of its repository, so
they cannot hide words of the person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pathspec import GitIgnoreSpec
from pydantic import BaseModel, ConfigDict

from swarm.capabilities.context.rules import expand_braces
from swarm.definitions.jsonc import OWN_SETTINGS, WORKSPACE_SETTINGS, read_table
from swarm.definitions.sources import Problem, Unusable, show

_KEY = "claudeMdExcludes"


class Excludes(BaseModel):
    """Globs of absolute paths, as they are where the job was submitted."""

    model_config = ConfigDict(frozen=True)

    own: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    """Globs for the repository's files only."""
    root: str = ""
    """The repository's folder."""
    workspace: str = ""

    def leaves_out(self, path: Path) -> bool:
        """Whether a file is excluded."""
        globs = (*self.own, *self.repository) if path.is_relative_to(self.root) else self.own
        return bool(globs) and _compile(globs).match_file(str(path).lstrip("/"))

    def leaves_out_below(self, relative: Path) -> bool:
        """Whether a file of the workspace is excluded, by its relative path."""
        return self.leaves_out(self.workspace / relative)


def read_excludes(workspace: Path, home: Path, root: Path) -> tuple[Excludes, list[Problem]]:
    """Read the excludes from the settings files that apply in a workspace."""
    problems: list[Problem] = []

    def read(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
        found: list[str] = []
        for path in (folder / name for name in names):
            try:
                found += _read(path)
            except Unusable as error:
                problems.append(error.as_problem(path))
        return tuple(_as_glob(glob, home) for given in found for glob in expand_braces(given))

    own = read(home, OWN_SETTINGS)
    repository = () if workspace == home else read(workspace, WORKSPACE_SETTINGS)
    if not own and not repository:
        return Excludes(), problems
    return Excludes(own=own, repository=repository, root=str(root), workspace=str(workspace)), problems


def _read(path: Path) -> list[str]:
    try:
        given = read_table(path).get(_KEY, [])
    except Unusable:
        return []  # the reader of its rules reports the file's faults
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Unusable(f"`{_KEY}` is {show(given)}, not a list of globs", 'Write for example ["**/vendor/CLAUDE.md"].')
    return [one for one in given if one.strip()]


def _as_glob(given: str, home: Path) -> str:
    """Make a glob a line of a `.gitignore` at the filesystem's root; a relative one matches in any folder."""
    glob = re.sub(r"^~(?=/)", lambda _: str(home), given.strip())
    return glob if glob.startswith("/") else f"**/{glob.removeprefix('./')}"


@lru_cache(maxsize=64)
def _compile(globs: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(globs)
