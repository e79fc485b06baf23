"""Finds the plugins for a workspace: added here or installed with another system, and enabled.

Settings of the person enable and disable plugins; what a workspace's settings choose is a `Grant` over the plugin's content. Of two
plugins of one name the first counts: those added here come first, then those of Claude Code, Codex and Copilot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from swarm.core.memo import Memo, look_at
from swarm.definitions.codex import read_codex_table
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import OWN_SETTINGS, WORKSPACE_SETTINGS, read_table
from swarm.definitions.plugins.installed import RECORD, PinnedPlugin, plugins_home, read_pinned
from swarm.definitions.plugins.known import INSTALLED, KnownMarkets
from swarm.definitions.plugins.manifest import read_plugin
from swarm.definitions.plugins.marketplaces import Marketplace
from swarm.definitions.plugins.model import NAME, Plugin, Plugins
from swarm.definitions.sources import (
    Problem,
    Unusable,
    enumerate_briefly,
    is_folder,
    project_folders,
    resolve,
    show,
    show_place,
)

_COPILOT, _CODEX = ".copilot/installed-plugins", ".codex/plugins/cache"
_OWN_SWITCHES = (*OWN_SETTINGS, ".copilot/settings.json", ".copilot/config.json")
_WORKSPACE_SWITCHES = (".github/copilot/settings.json", *WORKSPACE_SETTINGS)
_MAX_DEPTH = 8
_plugins = Memo[Plugins](64)
_read = Memo[Plugin](256)


class _Switch(NamedTuple):
    on: bool
    source: str


class _Choice(NamedTuple):
    """The choices of the person and the workspace about one plugin."""

    own: _Switch | None
    theirs: _Switch | None
    added: bool
    """Whether the person added it here, which enables it."""

    @property
    def is_own(self) -> bool:
        """Whether the person enabled it."""
        return self.own.on if self.own is not None else self.added

    @property
    def is_on(self) -> bool:
        """Whether anybody enabled it."""
        return self.is_own or (self.theirs is not None and self.theirs.on)

    def source(self) -> str:
        """The file that enables it."""
        return next(switch.source for switch in (self.own, self.theirs) if switch is not None and switch.on)

    def mark(self, plugin: Plugin) -> Plugin:
        """Name the workspace's file that enables or disables the plugin."""
        # The content of a plugin in the workspace came with the repository, so the person's choice is the workspace's.
        own = self.is_own and not plugin.in_workspace
        theirs = self.theirs or (self.own if self.is_own and not own else None)
        if theirs is None or (own and theirs.on):
            return plugin
        return replace(plugin, disabled_by=theirs.source) if own else replace(plugin, enabled_by=theirs.source)


class _Place(NamedTuple):
    """The place of a plugin, as a system's files say."""

    folder: Path
    system: str
    pinned: PinnedPlugin | None = None
    entry: Mapping[str, Any] | None = None
    commit: str = ""


def load_plugins(workspace: Path | None, home: Path | None = None) -> Plugins:
    """Find the plugins for a workspace; never raises because of a file's content."""
    try:
        base = home or Path.home()
    except RuntimeError:
        return Plugins()  # a user without a home
    key = (workspace, base, plugins_home(base))
    return _plugins.get(key, lambda: _PluginFinder(workspace, base).find())


def load_markets(workspace: Path | None, home: Path) -> Mapping[str, Marketplace]:
    """Find the marketplaces that the person or the workspace knows, by name; never raises because of a file's content."""
    return _PluginFinder(workspace, home).find_markets()


class _PluginFinder:
    def __init__(self, workspace: Path | None, home: Path) -> None:
        self._home = home
        folders = project_folders(workspace)
        self._workspace = folders[0] if folders else None
        self._root = folders[-1] if folders and folders[-1] != home else None
        self._folders = [folder for folder in folders if folder != home]
        self.problems: list[Problem] = []
        self._own: dict[str, _Switch] = {}
        self._theirs: dict[str, _Switch] = {}
        self._places: dict[str, _Place] = {}
        self._markets = KnownMarkets(self.problems)

    def find_markets(self) -> Mapping[str, Marketplace]:
        """Read all files that name marketplaces."""
        self._read_settings()
        self._markets.read_installed(self._home)
        self._markets.read_workspace(self._folders)
        return self._markets.by_name

    def find(self) -> Plugins:
        """Read all files that enable or hold plugins."""
        self.find_markets()
        self._read_places()
        given: list[Plugin] = []
        absent: list[tuple[str, str]] = []
        for one in dict.fromkeys([*self._places, *self._own, *self._theirs]):
            place = self._places.get(one)
            choice = _Choice(self._own.get(one), self._theirs.get(one), place is not None and place.pinned is not None)
            if not choice.is_on:
                continue
            place = place or self._in_market(one)
            if place is None:
                absent.append((one, choice.source()))
            elif (plugin := self._load(one, place)) is not None:
                given.append(choice.mark(plugin))
        found = self._first_of_each_name(given)
        off = [(one, switch.source) for one, switch in self._own.items() if not switch.on]
        grants = [_grant(one) for one in found if one.enabled_by or one.disabled_by]
        return Plugins(tuple(found), tuple(self.problems), tuple(absent), tuple(off), tuple(grants))

    def _first_of_each_name(self, given: list[Plugin]) -> list[Plugin]:
        """Return the plugins that no other one hides; a workspace's choice hides none of the person's."""
        found: dict[str, Plugin] = {}
        for one in sorted(given, key=lambda one: bool(one.enabled_by)):
            if found.setdefault(one.name.casefold(), one) is not one:
                self._report(one.folder, f"the plugin {one.id} is hidden by another one of its name", "Disable one.")
        return list(found.values())

    # -- settings ------------------------------------------------------------------------------------------

    def _read_settings(self) -> None:
        own = [self._home / name for name in _OWN_SWITCHES]
        theirs = [folder / name for folder in reversed(self._folders) for name in _WORKSPACE_SWITCHES]
        for path, switches in [*((path, self._own) for path in own), *((path, self._theirs) for path in theirs)]:
            try:
                content = read_table(path)
            except Unusable:
                continue  # the reader of permissions reports it
            self._take_switches(path, content.get("enabledPlugins"), switches)
            self._markets.take_settings(path, content, own=switches is self._own)
        self._take_codex(self._home / ".codex/config.toml")

    def _take_switches(self, path: Path, table: Any, switches: dict[str, _Switch]) -> None:
        for name, value in table.items() if isinstance(table, Mapping) else ():
            if isinstance(value, bool) and _is_id(name):
                switches[str(name)] = _Switch(value, self._show(path))
            else:
                self._report(path, f"`enabledPlugins` has {show(name)}, which is not used", "Write NAME@MARKETPLACE.")

    def _take_codex(self, path: Path) -> None:
        try:
            table = read_codex_table(path).get("plugins")
        except Unusable:
            return  # the reader of its agents reports it
        for name, about in table.items() if isinstance(table, Mapping) else ():
            if _is_id(name) and isinstance(about, Mapping):
                self._own.setdefault(name, _Switch(about.get("enabled") is not False, self._show(path)))

    # -- places --------------------------------------------------------------------------------------------

    def _read_places(self) -> None:
        try:
            for one, pinned in read_pinned(self._home).items():
                folder = plugins_home(self._home) / Path(pinned.folder).name
                self._places[one] = _Place(folder, pinned.system, pinned, pinned.entry, pinned.commit)
        except Unusable as error:
            self.problems.append(error.as_problem(plugins_home(self._home) / RECORD))
        self._read_claude()
        for one in (*self._own, *self._theirs):
            name, _, market = one.partition("@")
            if versions := _versions(self._home / _CODEX / market / name):
                self._places.setdefault(one, _Place(versions[-1], "codex", entry=self._markets.entry(one)))
            if market and is_folder(folder := self._home / _COPILOT / market / name):
                self._places.setdefault(one, _Place(folder, "copilot", entry=self._markets.entry(one)))

    def _read_claude(self) -> None:
        path = self._home / INSTALLED / "installed_plugins.json"
        try:
            table = read_table(path).get("plugins")
        except Unusable as error:
            self.problems.append(error.as_problem(path))
            return
        for one, installs in table.items() if isinstance(table, Mapping) else ():
            listed = installs if isinstance(installs, list) else [installs]
            fitting = [about for about in listed if isinstance(about, Mapping) and self._fits(about)]
            # Of several installations the workspace's own comes first.
            fitting.sort(key=lambda about: about.get("scope", "user") == "user")
            if fitting and _is_id(one):
                about = fitting[0]
                commit = about.get("gitCommitSha")
                place = _Place(Path(str(about["installPath"])), "claude", None, self._markets.entry(str(one)))
                if self._markets.is_live(one):
                    place = self._in_market(one) or place
                if is_folder(place.folder):
                    self._places.setdefault(str(one), place._replace(commit=commit if isinstance(commit, str) else ""))

    def _fits(self, about: Mapping[str, Any]) -> bool:
        project = about.get("projectPath")
        here = self._workspace is not None and isinstance(project, str) and self._workspace.is_relative_to(project)
        return isinstance(about.get("installPath"), str) and (project is None or here)

    def _in_market(self, one: str) -> _Place | None:
        """Return the place of a plugin that is used where its marketplace has it."""
        found = self._markets.find_folder(one)
        return _Place(found[0], "claude", entry=found[1]) if found is not None else None

    # -- one plugin ----------------------------------------------------------------------------------------

    def _load(self, one: str, place: _Place) -> Plugin | None:
        name, _, market = one.partition("@")
        entry = dict(place.entry or {})
        read = partial(read_plugin, place.folder, name=name, entry=entry, system=place.system)
        try:
            plugin = _read.get((place.folder, name, place.system, repr(entry)), read)
            if place.pinned is not None and plugin.digest != place.pinned.digest:
                raise Unusable("its content has changed since it was added", "Add it again with `swarm plugins add`.")
        except Unusable as error:
            fault = Unusable(f"the plugin {one} is left out: {error.message}", error.remedy, error.line)
            self.problems.append(fault.as_problem(place.folder))
            return None
        inside = self._root is not None and resolve(place.folder).is_relative_to(resolve(self._root))
        return replace(plugin, market=market, commit=place.commit, in_workspace=inside)

    def _show(self, path: Path) -> str:
        return show_place(path, self._workspace, self._home)

    def _report(self, path: Path, message: str, remedy: str) -> None:
        self.problems.append(Unusable(message, remedy).as_problem(path))


def _is_id(name: object) -> bool:
    parts = name.split("@") if isinstance(name, str) else []
    return 1 <= len(parts) <= 2 and all(NAME.fullmatch(part) for part in parts)


def _versions(folder: Path) -> list[Path]:
    """Return the folders of a plugin's versions, the newest last."""
    look_at(folder)
    try:
        found = [path for path in folder.iterdir() if is_folder(path)]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)
    except OSError:
        return []


def _grant(plugin: Plugin) -> Grant:
    """Return the grant that a workspace's choice of a plugin needs: over the content of all that it brings."""
    if plugin.disabled_by:
        return Grant(text=f"your plugin {plugin.id} is switched off", source=plugin.disabled_by, content=plugin.id)
    runs = enumerate_briefly(list(_programs(plugin)))
    text = f"the plugin {plugin.id}, as it is now, is enabled{f'; it runs {runs}' if runs else ''}"
    return Grant(text=text, source=plugin.enabled_by, content=plugin.digest)


def _programs(plugin: Plugin) -> Iterator[str]:
    """Yield the programs and addresses that a plugin's hooks and servers name, as written."""
    for table in (*plugin.hooks, *plugin.servers):
        yield from dict.fromkeys(_named(table.content))


def _named(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        line = [value.get("command") or value.get("url") or "", *_words(value.get("args"))]
        yield from [" ".join(map(str, line))] if line[0] else []
        yield from (text for one in value.values() for text in _named(one, depth + 1))
    elif isinstance(value, list):
        yield from (text for one in value for text in _named(one, depth + 1))


def _words(args: Any) -> list[Any]:
    return args if isinstance(args, list) else []
