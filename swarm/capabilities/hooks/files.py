"""Finds the hooks that hold in a workspace, in the settings files that people already have, and those of a worker's operator.

Read once, where a job is submitted; they travel with it, and so do the digests of the files of the workspace that they run. What a file
of the workspace has run counts only where that is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from swarm.core.errors import ConfigurationError
from swarm.definitions.grants import Grant
from swarm.definitions.hook_commands import grant_of, pin
from swarm.definitions.hook_tables import read_hooks
from swarm.definitions.hooks import Hook, Hooks, Origin
from swarm.definitions.jsonc import OWN_SETTINGS, WORKSPACE_SETTINGS, read_table
from swarm.definitions.sources import Problem, Unusable, read_text, show_path
from swarm.definitions.tools import EDIT
from swarm.permissions.path_rules import escape_path
from swarm.permissions.rules import Rule, Rules

_OWN = (*OWN_SETTINGS, ".codex/hooks.json")
_OF_WORKSPACE = (*WORKSPACE_SETTINGS, ".codex/hooks.json")
_REMEDY = "`swarm hooks` lists what would be run."
_OF_HOOKS = "the hooks that run this file"


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

    workspace: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """The files of the workspace that any of them runs, with their digests."""

    def holding(self, *, trusted: bool) -> Hooks:
        """Those that count."""
        hooks = () if self.off else (*self.own, *(self.of_workspace if trusted else ()))
        return Hooks(hooks=hooks, workspace=self.workspace, files=self.files, trusted=trusted)

    @property
    def rules(self) -> Rules:
        """That a file which a hook runs is changed is asked about."""
        rules = (Rule(action="ask", tool=EDIT, spec=f"/{escape_path(file)}", source=_OF_HOOKS) for file in self.files)
        return Rules(rules=tuple(rules))


@dataclass(frozen=True)
class Managed:
    """What a worker's operator has run, whatever a job says."""

    hooks: Hooks
    only: bool = False
    """Nobody else's are run there (`allowManagedHooksOnly`)."""


def find_hooks(workspace: Path, home: Path, of_types: Iterable[Hook] = ()) -> FoundHooks:
    """Read all files that may have hooks; never raises. `of_types` are those of definitions, whose files are pinned, too."""
    by_origin: dict[Origin, list[Hook]] = {"user": [], "project": []}
    problems: list[Problem] = []
    off = ""
    paths: list[tuple[Path, Origin, str]] = [(home / name, "user", f"~/{name}") for name in _OWN]
    known = {path for path, _, _ in paths}
    paths += [(workspace / name, "project", name) for name in _OF_WORKSPACE if workspace / name not in known]
    for path, origin, source in paths:
        try:
            table = read_table(path)
        except Unusable as error:
            if path.name == "hooks.json":  # the others' faults are told by those who read their permissions
                problems.append(error.as_problem(path))
            continue
        found, faults = read_hooks(table.get("hooks"), origin, source)
        problems += [Problem(path=show_path(path), message=f"`hooks`: {fault}", remedy=_REMEDY) for fault in faults]
        by_origin[origin] += found
        off = source if table.get("disableAllHooks") is True and origin == "user" else off
    own, ours = by_origin["user"], by_origin["project"]
    files = dict(pinned for hook in (*own, *ours, *of_types) for pinned in pin(hook, workspace).items())
    grants = [grant_of(hook, workspace) for hook in ours]
    grants += [_grant_own(hook, *pinned) for hook in own for pinned in pin(hook, workspace).items()]
    return FoundHooks(tuple(own), tuple(ours), tuple(problems), tuple(grants), off, str(workspace), files)


def _grant_own(hook: Hook, file: str, digest: str) -> Grant:
    """A person's own hook runs a file that came with the workspace, outside of the sandbox."""
    text = f"{file}, as it is now, is run outside of the sandbox by your hook on {hook.event} ({hook.source}): {hook.label}"
    return Grant(text=text, source=file, content=json.dumps({"files": {file: digest}}))


@cache
def read_managed(path: Path) -> Managed:
    """The operator's file, read once in a process. Raises `ConfigurationError`: who wants them run wants no agent to run without."""
    try:
        read_text(path)  # it must be there
        table = read_table(path)
    except Unusable as error:
        raise ConfigurationError(f"SWARM_MANAGED_HOOKS: {path}: {error}") from error
    found, faults = read_hooks(table.get("hooks"), "managed", str(path))
    if faults:
        raise ConfigurationError(f"SWARM_MANAGED_HOOKS: {path}: {faults[0]}; correct it, or take it out")
    return Managed(Hooks(hooks=tuple(found)), only=table.get("allowManagedHooksOnly") is True)
