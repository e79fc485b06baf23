"""The marketplaces that the person and the workspace know, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from swarm.definitions.jsonc import read_table
from swarm.definitions.plugins.manifest import inside_folder
from swarm.definitions.plugins.marketplaces import Marketplace, find_marketplace, read_marketplace
from swarm.definitions.sources import Problem, Unusable, is_folder, show

INSTALLED = ".claude/plugins"
"""Claude Code's folder of plugins and marketplaces, in the home."""


class KnownMarkets:
    """The marketplaces of one person and workspace; a workspace's never stands for one of the person's."""

    def __init__(self, problems: list[Problem]) -> None:
        """`problems` receives those of their files."""
        self._problems = problems
        self._own: dict[str, Marketplace] = {}
        self._theirs: dict[str, Marketplace] = {}
        self._live: set[str] = set()
        """Marketplaces whose plugins Claude Code reads from their own folder, not from its copy."""

    @property
    def by_name(self) -> Mapping[str, Marketplace]:
        """All of them."""
        return {**self._theirs, **self._own}

    def take_settings(self, path: Path, content: Mapping[str, Any], *, own: bool) -> None:
        """Take the marketplaces that a settings file names."""
        known, base = content.get("extraKnownMarketplaces"), path.parent.parent
        for name, about in known.items() if isinstance(known, Mapping) else ():
            match about:
                case {"source": {"source": "directory" | "file", "path": str(given)}}:
                    try:
                        place = base / given if own else inside_folder(base, given)
                    except Unusable as error:
                        self._report(path, f"the marketplace {show(name)}", error)
                    else:
                        self._take(place, self._own if own else self._theirs, str(name))

    def read_installed(self, home: Path) -> None:
        """Take the marketplaces that Claude Code knows."""
        path = home / INSTALLED / "known_marketplaces.json"
        try:
            table = read_table(path)
        except Unusable as error:
            self._problems.append(error.as_problem(path))
            return
        for name, about in table.items():
            match about:
                case {"installLocation": str(place)}:
                    self._take(Path(place), self._own, str(name))
            match about:
                case {"installLocation": str(), "source": {"source": "directory"}}:
                    self._live.add(str(name))

    def read_workspace(self, folders: Iterable[Path]) -> None:
        """Take the marketplaces that folders of the workspace are."""
        for folder in folders:
            if find_marketplace(folder) is not None:
                self._take(folder, self._theirs)

    def is_live(self, plugin_id: str) -> bool:
        """Whether Claude Code reads the plugin from its marketplace's own folder."""
        return plugin_id.partition("@")[2] in self._live

    def entry(self, plugin_id: str) -> Mapping[str, Any] | None:
        """The entry of a plugin in a marketplace of the person."""
        name, _, market = plugin_id.partition("@")
        return self._own[market].entries.get(name) if market in self._own else None

    def find_folder(self, plugin_id: str) -> tuple[Path, Mapping[str, Any]] | None:
        """Find the folder of a plugin in its marketplace's own, and its entry."""
        name, _, market = plugin_id.partition("@")
        known = self.by_name.get(market)
        if known is None:
            return None
        try:
            folder = known.find(name).folder
        except Unusable as error:
            self._report(known.folder, f"the plugin {plugin_id}", error)
            return None
        return (folder, known.entries[name]) if folder is not None and is_folder(folder) else None

    def _take(self, place: Path, markets: dict[str, Marketplace], name: str = "") -> None:
        try:
            market = read_marketplace(place)
        except Unusable as error:
            if name and place.exists():
                self._problems.append(error.as_problem(place))
            return
        markets.setdefault(name or market.name, market)

    def _report(self, path: Path, what: str, error: Unusable) -> None:
        self._problems.append(Unusable(f"{what}: {error.message}", error.remedy, error.line).as_problem(path))
