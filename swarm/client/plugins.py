"""Adds and removes a person's plugins: a copy of each, pinned to its content and, from Git, to its commit."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from swarm.core.errors import ConfigurationError, GitFailed
from swarm.definitions.plugins.enabled import load_markets
from swarm.definitions.plugins.installed import PinnedPlugin, plugins_home, read_pinned, write_pinned
from swarm.definitions.plugins.manifest import inside_folder, read_plugin
from swarm.definitions.plugins.marketplaces import Marketplace, PluginSource, read_marketplace
from swarm.definitions.plugins.model import NAME, Plugin
from swarm.definitions.sources import Unusable, is_folder
from swarm.workspace.git_command import call_git

_URL = re.compile(r"(?:https?|ssh|file)://\S+|[\w.-]+@[\w.-]+:\S+")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_GITHUB = re.compile(r"[A-Za-z0-9][\w-]*/[\w.-]+")
_FETCH_SECONDS = 300.0


class PluginSpec(NamedTuple):
    """The source of a plugin, as a person names it."""

    source: str
    """A folder, a Git URL, or `NAME@MARKETPLACE` with a known marketplace, its folder, its file or its Git URL."""
    ref: str = ""
    """A branch, tag or full commit."""
    path: str = ""
    """The plugin's folder in the repository."""


class _Taken(NamedTuple):
    """A plugin's files on this machine, before they are copied."""

    folder: Path
    origin: str
    commit: str = ""
    name: str = ""
    market: str = ""
    entry: Mapping[str, Any] | None = None


def add_plugin(spec: PluginSpec, home: Path, workspace: Path | None = None) -> tuple[str, Plugin]:
    """Copy a plugin into the person's folder and pin it; one of the same id is replaced. Returns its id.

    Raises `ConfigurationError` if it cannot be had or used.
    """
    with tempfile.TemporaryDirectory(prefix="swarm-plugin-") as scratch:
        try:
            taken = _take(spec, home, workspace, Path(scratch))
            folder, plugin = _copy_in(taken, plugins_home(home))
            pinned = read_pinned(home)
        except Unusable as error:
            raise ConfigurationError(f"{spec.source} cannot be added: {error}") from error
        except GitFailed as error:
            raise ConfigurationError(f"{spec.source} cannot be fetched: {error}") from error
        except OSError as error:
            raise ConfigurationError(f"{spec.source} cannot be copied: {error.strerror or error}") from error
    name = f"{plugin.name}@{taken.market}" if taken.market else plugin.name
    before = pinned.get(name)
    pinned[name] = PinnedPlugin(
        folder=folder.name,
        digest=plugin.digest,
        origin=taken.origin,
        commit=taken.commit,
        entry=dict(taken.entry or {}),
    )
    write_pinned(home, pinned)
    _remove_folder(home, before, pinned)
    return name, plugin


def _copy_in(taken: _Taken, base: Path) -> tuple[Path, Plugin]:
    """Copy a plugin's files into the folder of all plugins. Raises `Unusable`, `OSError`."""
    entry = dict(taken.entry or {})
    found = read_plugin(taken.folder, name=taken.name, entry=entry)
    if not any((found.agents, found.skills, found.commands, found.command_tables, found.hooks, found.servers)):
        raise Unusable("it brings no agents, skills, commands, hooks or servers", "Name a plugin's folder.")
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = base / found.place
    with tempfile.TemporaryDirectory(dir=base, prefix=".adding-") as making:
        copy = Path(making, "copy")
        shutil.copytree(taken.folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        shutil.rmtree(folder, ignore_errors=True)  # an earlier copy, which may have changed since
        copy.rename(folder)
    plugin = read_plugin(folder, name=found.name, entry=entry)
    if plugin.digest != found.digest:
        raise Unusable("its files changed while they were copied", "Add it again.")
    return folder, plugin


def remove_plugin(name: str, home: Path) -> str:
    """Remove an added plugin by its id, or by its name if that is unique; returns the id. Raises `ConfigurationError`."""
    try:
        pinned = read_pinned(home)
    except Unusable as error:
        raise ConfigurationError(f"the record of plugins: {error}") from error
    fitting = [one for one in pinned if name in (one, one.partition("@")[0])]
    if len(fitting) != 1:
        raise ConfigurationError(
            f"no plugin {name!r} was added here; `swarm plugins list` shows them"
            if not fitting
            else f"{name!r} can be {' or '.join(fitting)}; name one of them"
        )
    before = pinned.pop(fitting[0])
    write_pinned(home, pinned)
    _remove_folder(home, before, pinned)
    return fitting[0]


def _remove_folder(home: Path, before: PinnedPlugin | None, pinned: Mapping[str, PinnedPlugin]) -> None:
    if before is not None and before.folder not in {one.folder for one in pinned.values()}:
        shutil.rmtree(plugins_home(home) / Path(before.folder).name, ignore_errors=True)


def _take(spec: PluginSpec, home: Path, workspace: Path | None, scratch: Path) -> _Taken:
    source = spec.source
    if _URL.fullmatch(source):
        folder, commit = _fetch(PluginSource(url=source, path=spec.path, ref=spec.ref), scratch / "plugin")
        name = "" if spec.path else source.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return _Taken(folder, source, commit, _named(folder, name))
    local = Path(source).expanduser()
    name, mark, market = source.partition("@")
    if mark and NAME.fullmatch(name) and not is_folder(local):
        found, commit = _find_market(market, home, workspace, spec.ref, scratch)
        at = found.find(name)
        origin = f"{name}@{found.name}"
        entry = found.entries[name]
        if at.folder is not None:
            return _Taken(at.folder, origin, commit, name, found.name, entry)
        folder, commit = _fetch(at, scratch / "plugin")
        return _Taken(folder, f"{origin} ({at.url})", commit, name, found.name, entry)
    folder = inside_folder(local, spec.path) if spec.path else local
    if not is_folder(folder):
        raise Unusable("there is no such folder", "Name a folder, a Git URL, or NAME@MARKETPLACE.")
    return _Taken(folder.absolute(), str(folder.absolute()), name=_named(folder, folder.absolute().name))


def _named(folder: Path, otherwise: str) -> str:
    """Return the name of a plugin's own manifest, or another one if it has none."""
    try:
        return read_plugin(folder).name
    except Unusable:
        return otherwise


def _find_market(given: str, home: Path, workspace: Path | None, ref: str, scratch: Path) -> tuple[Marketplace, str]:
    known = load_markets(workspace, home)
    if given in known:
        return known[given], ""
    local = Path(given).expanduser()
    if local.exists():
        return read_marketplace(local.absolute()), ""
    url = f"https://github.com/{given}.git" if _GITHUB.fullmatch(given) else given
    if not _URL.fullmatch(url):
        raise Unusable(f"no marketplace {given!r} is known", "Name its folder, its file or its Git URL behind the @.")
    folder, commit = _fetch(PluginSource(url=url, ref=ref), scratch / "market")
    return read_marketplace(folder), commit


def _fetch(source: PluginSource, scratch: Path) -> tuple[Path, str]:
    """Fetch one commit and return the plugin's folder and the commit. Raises `Unusable`, `GitFailed`."""
    ref = source.commit or source.ref or "HEAD"
    if ref.startswith("-") or (source.commit and not _COMMIT.fullmatch(source.commit)):
        raise Unusable(f"{ref!r} is no commit, tag or branch", "Correct it.")
    repository, tree = scratch / "repository", scratch / "tree"
    for folder in (repository, tree):
        folder.mkdir(parents=True)
    call_git(repository, ["init", "-q", "--bare"])
    follow = ["-c", "http.followRedirects=initial"]
    call_git(repository, [*follow, "fetch", "-q", "--depth=1", "--no-tags", source.url, ref], seconds=_FETCH_SECONDS)
    commit = call_git(repository, ["rev-parse", "FETCH_HEAD^{commit}"])[1].decode().strip()
    if source.commit and commit != source.commit:
        raise Unusable(f"its repository gave the commit {commit[:12]}, and the marketplace pins another", "Report it.")
    call_git(repository, ["checkout", "-q", "-f", commit, "--", "."], tree=tree)
    return (inside_folder(tree, source.path) if source.path else tree), commit
