"""Folders that are too broad for a workspace: a person's home, and its parents."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from swarm.core.errors import ConfigurationError
from swarm.core.memo import look_for


def find_home(folder: Path, homes: Iterable[Path]) -> Path | None:
    """The first of `homes` that a workspace at `folder` would hold; None if it holds none."""
    return next((home for home in homes if home.is_relative_to(folder)), None)


def known_homes(folder: Path) -> tuple[Path, ...]:
    """Return the homes of this process's user and of the folder's owner, resolved."""
    found = [os.path.expanduser("~")]
    for user in {os.getuid(), folder.stat().st_uid}:
        try:
            found.append(pwd.getpwuid(user).pw_dir)
        except KeyError:
            continue
    return tuple(dict.fromkeys(Path(home).resolve() for home in found if os.path.isabs(home) and os.path.isdir(home)))


def refuse_home(folder: Path) -> None:
    """Raise `ConfigurationError` if a workspace at the resolved `folder` would hold a home."""
    home = find_home(folder, known_homes(folder))
    if home is not None:
        what = "is a home" if home == folder else f"holds the home {home}"
        raise ConfigurationError(
            f"the workspace {folder} {what}: agents would read programs' data there, and change their settings. "
            "Name the folder of one project with --workspace, or give --home-workspace if that is what you want."
        )


def find_folder(workspace: Path, given: str) -> Path:
    """Resolve a further folder to work in. Raises `ConfigurationError` if it is no folder, or holds a home."""
    try:
        named = workspace / Path(given).expanduser()
        look_for(named)
        folder = named.resolve()
        is_there = folder.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"{given!r} is no folder ({error})") from error
    if not is_there:
        raise ConfigurationError(f"{given!r} is no folder on this machine")
    if find_home(folder, known_homes(folder)) is not None:
        raise ConfigurationError(f"{folder} is a home, or holds one: agents would reach programs' data there")
    return folder
