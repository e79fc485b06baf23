"""Finds the hooks that hold in a workspace, in the settings files that people already have, and those of a worker's operator.

Read once, where a job is submitted; they travel with it. What a file of the workspace has run counts only where that is trusted.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from swarm.definitions.grants import Grant
from swarm.definitions.hook_tables import read_hooks
from swarm.definitions.hooks import Hook, Hooks, Origin
from swarm.definitions.jsonc import parse_jsonc
from swarm.definitions.sources import Problem, Unusable, read_text, show_path
from swarm.errors import ConfigurationError

_OWN = (".claude/settings.json", ".config/swarm/settings.json", ".codex/hooks.json")
_OF_WORKSPACE = (
    ".claude/settings.json",
    ".swarm/settings.json",
    # By its name a person's own file; but a clone may bring it along, and nothing tells the two apart.
    ".claude/settings.local.json",
    ".codex/hooks.json",
)
_REMEDY = "`swarm hooks` lists what would be run."
_MAX_SCRIPT_BYTES = 1024 * 1024


@dataclass(frozen=True)
class FoundHooks:
    """What the files of a person and of a workspace have run."""

    own: tuple[Hook, ...] = ()
    of_workspace: tuple[Hook, ...] = ()
    problems: tuple[Problem, ...] = ()
    grants: tuple[Grant, ...] = ()
    """What has to be trusted for those of the workspace."""
    off: str = ""
    """The file that switches all of them off."""

    def holding(self, *, trusted: bool) -> Hooks:
        """Those that count."""
        return Hooks() if self.off else Hooks(hooks=(*self.own, *(self.of_workspace if trusted else ())))


@dataclass(frozen=True)
class Managed:
    """What a worker's operator has run, whatever a job says."""

    hooks: Hooks
    only: bool = False
    """Nobody else's are run there (`allowManagedHooksOnly`)."""


def find_hooks(workspace: Path, home: Path) -> FoundHooks:
    """Read all files that may have hooks; never raises."""
    own: list[Hook] = []
    ours: list[Hook] = []
    problems: list[Problem] = []
    off = ""
    paths: list[tuple[Path, Origin, str]] = [(home / name, "user", f"~/{name}") for name in _OWN]
    known = {path for path, _, _ in paths}
    paths += [(workspace / name, "project", name) for name in _OF_WORKSPACE if workspace / name not in known]
    for path, origin, source in paths:
        try:
            table = _read(path)
        except Unusable as error:
            if path.name == "hooks.json":  # the others' faults are told by those who read their permissions
                problems.append(error.as_problem(path))
            continue
        found, faults = read_hooks(table.get("hooks"), origin, source)
        problems += [Problem(path=show_path(path), message=f"`hooks`: {fault}", remedy=_REMEDY) for fault in faults]
        (own if origin == "user" else ours).extend(found)
        if table.get("disableAllHooks") is True and origin == "user":
            off = source
    grants = tuple(_grant(hook, workspace) for hook in ours)
    return FoundHooks(tuple(own), tuple(ours), tuple(problems), grants, off)


@cache
def read_managed(path: Path) -> Managed:
    """The operator's file, read once in a process. Raises `ConfigurationError`: who wants them run wants no agent to run without."""
    try:
        table = _read(path, needed=True)
    except Unusable as error:
        raise ConfigurationError(f"SWARM_MANAGED_HOOKS: {path}: {error}") from error
    found, faults = read_hooks(table.get("hooks"), "managed", str(path))
    if faults:
        raise ConfigurationError(f"SWARM_MANAGED_HOOKS: {path}: {faults[0]}; correct it, or take it out")
    return Managed(Hooks(hooks=tuple(found)), only=table.get("allowManagedHooksOnly") is True)


def _read(path: Path, *, needed: bool = False) -> Mapping[str, Any]:
    if not needed and not os.path.lexists(path):
        return {}
    try:
        content = parse_jsonc(read_text(path))
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}", "Check that it may be read.") from error
    if not isinstance(content, Mapping):
        raise Unusable("it is not a table", "Write an object in it.")
    return content


def _grant(hook: Hook, workspace: Path) -> Grant:
    """What is trusted of a hook: its entry, and the scripts of the workspace that its command names, as they are."""
    scripts = [f"{path.relative_to(workspace)} {_digest(path)}" for path in scripts_of(hook, workspace)]
    grant = hook.grant
    return grant.model_copy(update={"content": "\n".join([grant.content, *scripts])})


def scripts_of(hook: Hook, workspace: Path) -> list[Path]:
    """The files of the workspace that a command names, so far as its words tell."""
    try:
        words = shlex.split(hook.command, comments=True)
    except ValueError:
        words = hook.command.split()
    found = []
    for word in (*words, *(hook.args or ())):
        for prefix in ("$CLAUDE_PROJECT_DIR/", "${CLAUDE_PROJECT_DIR}/", "./"):
            word = word.removeprefix(prefix)
        if word and not word.startswith(("/", "-", "~")) and ".." not in word and len(word) < 1_000:
            path = workspace / word
            if path.is_file():
                found.append(path)
    return found


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.sha256(file.read(_MAX_SCRIPT_BYTES)).hexdigest()
    except OSError as error:
        return f"unreadable ({error.strerror})"
