"""Reads marketplaces: tables of plugins, each with the place to get it from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.core.memo import look_for
from swarm.definitions.jsonc import read_table
from swarm.definitions.plugins.manifest import inside_folder
from swarm.definitions.plugins.model import NAME
from swarm.definitions.sources import Unusable, is_folder, show

FILES = (
    ".claude-plugin/marketplace.json",
    ".agents/plugins/marketplace.json",
    ".github/plugin/marketplace.json",
    ".plugin/marketplace.json",
    "marketplace.json",
)
"""Places of the table in a marketplace's folder."""
_GITHUB = "https://github.com/{}.git"
_HERE = (".", "./")


@dataclass(frozen=True)
class PluginSource:
    """The place of a marketplace's plugin: a folder below the marketplace's, or one of a Git repository."""

    folder: Path | None = None
    url: str = ""
    path: str = ""
    """The folder in the repository; empty for all of it."""
    ref: str = ""
    """A branch, tag or commit; empty for the repository's choice."""
    commit: str = ""
    """The only commit that the marketplace allows."""


@dataclass(frozen=True)
class Marketplace:
    """A marketplace on this machine."""

    name: str
    folder: Path
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The plugins' entries by name."""
    root: str = ""
    """The folder that bare names of plugins are in."""

    def find(self, name: str) -> PluginSource:
        """Return where a plugin is. Raises `Unusable`."""
        entry = self.entries.get(name)
        if entry is None:
            raise Unusable(
                f"the marketplace {self.name} has no plugin {show(name)}", "`swarm plugins list` shows names."
            )
        return self._source(entry.get("source"))

    def _source(self, given: Any) -> PluginSource:
        named = _folder_of(given)
        if named is None:
            return _read_repository(given)
        bare = "/" not in named and named not in _HERE and self.root
        return PluginSource(folder=inside_folder(self.folder, f"{self.root}/{named}" if bare else named))


def _folder_of(given: Any) -> str | None:
    """Return the folder that a `source` names; None if it names something else."""
    match given:
        case str(folder) | {"source": "local", "path": str(folder)}:
            return folder
        case {"source": "url", "url": str(url)} if url in _HERE:
            return "./"
    return None


def _read_repository(given: Any) -> PluginSource:
    """Read a `source` that names a repository. Raises `Unusable`."""
    match given:
        case {"source": "github", "repo": str(repository)}:
            url = _GITHUB.format(repository)
        case {"source": "git-subdir", "url": str(url)} if "/" in url and "://" not in url and "@" not in url:
            url = _GITHUB.format(url)
        case {"source": "url" | "git" | "git-subdir", "url": str(url)}:
            pass
        case {}:
            raise Unusable(
                f"plugins from {show(given.get('source'))} are not installed here", "Clone it, and add the folder."
            )
        case _:
            raise Unusable(f"its `source` is {show(given)}", "Name a folder or a repository.")
    words = {key: given.get(key) or "" for key in ("path", "ref", "sha")}
    if not all(isinstance(word, str) and not word.startswith("-") for word in words.values()):
        raise Unusable("its `source` is not valid", "Correct it in the marketplace.")
    return PluginSource(url=url, path=words["path"], ref=words["ref"], commit=words["sha"])


def find_marketplace(folder: Path) -> Path | None:
    """Return the table of a folder that is a marketplace; None for any other."""
    for path in (folder / place for place in FILES):
        look_for(path)
        if path.is_file():
            return path
    return None


def read_marketplace(place: Path) -> Marketplace:
    """Read a marketplace from its folder or its table. Raises `Unusable`."""
    path = find_marketplace(place) if is_folder(place) else place
    if path is None:
        raise Unusable("it holds no marketplace.json", "Name a folder with .claude-plugin/marketplace.json.")
    table = read_table(path)
    name, listed, about = table.get("name"), table.get("plugins"), table.get("metadata")
    if not isinstance(name, str) or not NAME.fullmatch(name) or not isinstance(listed, list):
        raise Unusable("it needs a `name` and a list of `plugins`", "Correct it there.")
    entries: dict[str, Mapping[str, Any]] = {}
    for entry in listed:
        called = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(called, str) and NAME.fullmatch(called):
            entries.setdefault(called, entry)
    root = about.get("pluginRoot", "") if isinstance(about, Mapping) else ""
    folder = next((path.parents[len(Path(one).parts) - 1] for one in FILES if path.match(one)), path.parent)
    return Marketplace(name, folder, entries, root if isinstance(root, str) else "")
