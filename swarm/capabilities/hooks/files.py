"""Find the hooks for a workspace in people's existing settings files, and those of a worker's operator.

They are read once, at submission, and travel with the job, together with digests of the workspace files that they run. Hooks from files
of the workspace count only if it is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.codex import read_codex_table
from swarm.definitions.grants import Grant
from swarm.definitions.hook_commands import grant_of, pin
from swarm.definitions.hook_tables import read_hooks
from swarm.definitions.hooks import Hook, Hooks, Origin
from swarm.definitions.jsonc import OWN_SETTINGS, WORKSPACE_SETTINGS, read_table
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.model import Brought, Plugin
from swarm.definitions.sources import Problem, Unusable, read_text, show_path
from swarm.definitions.tools import EDIT
from swarm.permissions.path_rules import escape_path
from swarm.permissions.rules import Rule, Rules
from swarm.runtime.additions import OrderPart, OrderPlace, WorkerPart

_CODEX = (".codex/hooks.json", ".codex/config.toml")
_OWN = (*OWN_SETTINGS, *_CODEX)
_OF_WORKSPACE = (*WORKSPACE_SETTINGS, *_CODEX)
_REMEDY = "`swarm hooks` lists the hooks that would run."
_OF_HOOKS = "the hooks that run this file"


@dataclass(frozen=True)
class FoundHooks:
    """The hooks in a person's and a workspace's files."""

    own: tuple[Hook, ...] = ()
    of_workspace: tuple[Hook, ...] = ()
    problems: tuple[Problem, ...] = ()
    grants: tuple[Grant, ...] = ()
    """Grants that the workspace's hooks need."""
    off: str = ""
    """The file that disables all of them."""

    workspace: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """The workspace files that any hook runs, with their digests."""
    of_plugins: tuple[tuple[Plugin, tuple[Hook, ...]], ...] = ()
    """The hooks of each plugin."""

    def from_plugins(self, *, trusted: bool) -> list[Hook]:
        """The hooks of the plugins that count."""
        return [hook for one, hooks in self.of_plugins for hook in hooks if one.counts(trusted=trusted)]

    def holding(self, *, trusted: bool) -> Hooks:
        """The hooks that count."""
        hooks = (
            ()
            if self.off
            else (*self.own, *self.from_plugins(trusted=trusted), *(self.of_workspace if trusted else ()))
        )
        return Hooks(hooks=hooks, workspace=self.workspace, files=self.files, trusted=trusted)

    @property
    def rules(self) -> Rules:
        """Rules that ask before a file that a hook runs is changed."""
        rules = (Rule(action="ask", tool=EDIT, spec=f"/{escape_path(file)}", source=_OF_HOOKS) for file in self.files)
        return Rules(rules=tuple(rules))


@dataclass(frozen=True)
class Managed:
    """The hooks of a worker's operator, for every job."""

    hooks: Hooks
    only: bool = False
    """Whether only these hooks run there (`allowManagedHooksOnly`)."""


def find_hooks(workspace: Path, home: Path, of_types: Iterable[Hook] = ()) -> FoundHooks:
    """Read all files that may hold hooks; never raises. `of_types` are those of definitions, whose files are pinned, too."""
    problems: list[Problem] = []
    personal = {home / name: f"~/{name}" for name in _OWN}
    # A file of a home that is also the workspace is the person's own.
    shared = {path: name for name in _OF_WORKSPACE if (path := workspace / name) not in personal}
    own, off = _read_files(personal, "user", problems)
    ours, _ = _read_files(shared, "project", problems)
    of_plugins = [read_plugin_hooks(plugin, problems) for plugin in load_plugins(workspace, home).all]
    brought = [hook for _, hooks in of_plugins for hook in hooks]
    files = dict(pinned for hook in (*own, *ours, *brought, *of_types) for pinned in pin(hook, workspace).items())
    grants = [grant_of(hook, workspace) for hook in ours]
    grants += [_grant_own(hook, *pinned) for hook in (*own, *brought) for pinned in pin(hook, workspace).items()]
    return FoundHooks(
        tuple(own), tuple(ours), tuple(problems), tuple(grants), off, str(workspace), files, tuple(of_plugins)
    )


def _read_files(sources: Mapping[Path, str], origin: Origin, problems: list[Problem]) -> tuple[list[Hook], str]:
    """Read the hooks of these files, and the file that disables all hooks."""
    hooks: list[Hook] = []
    off = ""
    for path, source in sources.items():
        try:
            table = _read_codex(path) if path.suffix == ".toml" else read_table(path)
        except Unusable as error:
            if path.name == "hooks.json":  # readers of permissions report the other files' faults
                problems.append(error.as_problem(path))
            continue
        hooks += _take_table(path, table.get("hooks"), origin, source, problems)
        off = source if table.get("disableAllHooks") is True else off
    return hooks, off


def _take_table(path: Path, table: Any, origin: Origin, source: str, problems: list[Problem]) -> list[Hook]:
    hooks, faults = read_hooks(table, origin, source)
    problems += [Problem(path=show_path(path), message=f"`hooks`: {fault}", remedy=_REMEDY) for fault in faults]
    return hooks


def read_plugin_hooks(plugin: Plugin, problems: list[Problem]) -> tuple[Plugin, tuple[Hook, ...]]:
    """Read the hooks of a plugin; one that came with the repository is the repository's."""
    found: list[Hook] = []
    for path, table in plugin.hooks:
        origin: Origin = "project" if plugin.in_workspace else "user"
        hooks = _take_table(path, table, origin, f"plugin {plugin.id}", problems)
        found += [hook.model_copy(update={"plugin": plugin.place}) for hook in hooks]
    return plugin, tuple(found)


def list_brought(plugin: Plugin) -> Brought:
    """List the hooks of a plugin, each with its event."""
    problems: list[Problem] = []
    hooks = read_plugin_hooks(plugin, problems)[1]
    return Brought(
        {"hooks": [f"{hook.event}: {hook.label}" for hook in hooks]}, problems, [hook.label for hook in hooks]
    )


def _read_codex(path: Path) -> Mapping[str, Any]:
    """Read the hooks of Codex's configuration; its own notes under `state` are no event."""
    table = read_codex_table(path)
    hooks, features = table.get("hooks"), table.get("features")
    if isinstance(features, Mapping) and features.get("hooks", features.get("codex_hooks")) is False:
        return {}
    return {"hooks": {key: one for key, one in hooks.items() if key != "state"}} if isinstance(hooks, Mapping) else {}


def _grant_own(hook: Hook, file: str, digest: str) -> Grant:
    """The grant for a person's own hook to run a workspace file outside the sandbox."""
    text = f"{file}, as it is now, is run outside of the sandbox by your hook on {hook.event} ({hook.source}): {hook.label}"
    return Grant(text=text, source=file, content=json.dumps({"files": {file: digest}}))


class HooksOfOrder(OrderPart):
    """The hooks of one order."""

    def __init__(self, place: OrderPlace) -> None:
        super().__init__(place)
        of_types = (hook for one in place.catalogue.definitions.values() for hook in one.hooks)
        self.found = found = find_hooks(place.folder, place.home, of_types)
        self.grants, self.problems, self.rules = found.grants, found.problems, found.rules

    def document(self) -> Hooks | None:
        """The hooks that count."""
        return self.found.holding(trusted=self.place.trusted) or None


class HooksOfWorker(WorkerPart):
    """The operator's hooks: a worker without them takes no agent."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if settings.managed_hooks is not None:
            read_managed(settings.managed_hooks)


@cache
def read_managed(path: Path) -> Managed:
    """Read the operator's file once per process. Raises `ConfigurationError`, so that no agent runs without its hooks."""
    try:
        read_text(path)  # the file must exist
        table = read_table(path)
    except Unusable as error:
        raise ConfigurationError(f"SWARM_MANAGED_HOOKS: {path}: {error}") from error
    found, faults = read_hooks(table.get("hooks"), "managed", str(path))
    if faults:
        raise ConfigurationError(f"SWARM_MANAGED_HOOKS: {path}: {faults[0]}; correct it, or take it out")
    return Managed(Hooks(hooks=tuple(found)), only=table.get("allowManagedHooksOnly") is True)
