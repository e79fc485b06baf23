"""Reads one plugin's folder: its manifest, in the form of any of the systems, and the places of its parts.

A path of a manifest begins below the plugin's folder and stays there, links resolved. A part that cannot be used is a problem of the
plugin; the others count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from swarm.core.memo import look_for
from swarm.definitions.jsonc import read_table
from swarm.definitions.plugins.content import weigh
from swarm.definitions.plugins.model import NAME, Plugin, PluginTable
from swarm.definitions.sources import Problem, Unusable, is_folder, resolve, show, show_path

MANIFESTS: Mapping[str, tuple[str, ...]] = {
    "claude": (".claude-plugin/plugin.json", ".plugin/plugin.json", "plugin.json"),
    "codex": (".codex-plugin/plugin.json",),
    "copilot": (".plugin/plugin.json", "plugin.json", ".github/plugin/plugin.json"),
}
"""Places of manifests by system; those of the others come after a system's own."""


class _Part(NamedTuple):
    """One kind of part: where it is without a word of the manifest, and whether the manifest's paths add to that."""

    places: tuple[str, ...]
    adds: bool


_PARTS = {
    "agents": _Part(("agents",), False),
    "skills": _Part(("skills",), True),
    "commands": _Part(("commands",), False),
    "hooks": _Part(("hooks/hooks.json", "hooks.json"), True),
    "mcpServers": _Part((".mcp.json", "mcp.json", ".github/mcp.json"), True),
}


def find_manifest(folder: Path, system: str = "claude") -> Path | None:
    """Return the manifest of a plugin's folder; None if there is none."""
    places = (*MANIFESTS[system], *(place for one in MANIFESTS.values() for place in one))
    for path in (folder / place for place in dict.fromkeys(places)):
        look_for(path)
        if path.is_file():
            return path
    return None


def read_plugin(
    folder: Path, *, name: str = "", entry: Mapping[str, Any] | None = None, system: str = "claude"
) -> Plugin:
    """Read a plugin. `name` is the one that it is enabled by, `entry` that of its marketplace. Raises `Unusable`."""
    if not is_folder(folder):
        raise Unusable("there is no such folder", "Install the plugin again.")
    entry = entry or {}
    found = find_manifest(folder, system)
    manifest = read_table(inside_folder(folder, found.relative_to(folder).as_posix())) if found is not None else {}
    called = name or entry.get("name") or manifest.get("name") or folder.name
    if not isinstance(called, str) or not NAME.fullmatch(called):
        raise Unusable(f"{show(called)} cannot be the name of a plugin", "Use letters, digits, '-', '_' and '.'.")
    reading = _Reading(folder, {**entry, **manifest} if found is not None else entry, found or folder)
    plugin = Plugin(
        name=called,
        market="",
        folder=folder,
        system=system,
        version=_text(manifest, "version") or _text(entry, "version"),
        agents=tuple(reading.paths("agents")),
        skills=tuple(reading.find_skills(named_alone=entry.get("source") in (".", "./"))),
        commands=tuple(reading.paths("commands")),
        command_tables=tuple(reading.inline_commands()),
        hooks=tuple(reading.tables("hooks")),
        servers=tuple(reading.tables("mcpServers")),
        problems=tuple(reading.problems),
    )
    return weigh(plugin, entry)


class _Reading:
    """The parts that a manifest names, or that lie where they are looked for."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], source: Path) -> None:
        self._folder, self._manifest, self._source = folder, manifest, source
        self.problems: list[Problem] = []

    def paths(self, key: str) -> Iterator[Path]:
        """Yield the files and folders of a part."""
        given = self._manifest.get(key)
        part = _PARTS[key]
        named = _listed(given)
        if named is None and isinstance(given, Mapping):
            named = [one["source"] for one in given.values() if isinstance(one, Mapping) and "source" in one]
        elif named is None and given is not None:
            self._report(f"`{key}` is {show(given)}, not a path", "Write a path that begins with ./, or a list.")
        default = part.adds or named is None
        for place in (*(part.places if default else ()), *(named or ())):
            yield from self._existing(key, place, wanted=place not in part.places)

    def find_skills(self, *, named_alone: bool) -> Iterator[Path]:
        """Yield the folders of skills. A plugin that is a marketplace's whole folder has only the ones that it names."""
        found = list(dict.fromkeys(self.paths("skills")))
        named = _listed(self._manifest.get("skills"))
        if named and named_alone:
            found = [path for path in found if path != self._folder / "skills"]
        yield from found
        if not found and (self._folder / "SKILL.md").is_file():
            yield self._folder

    def tables(self, key: str) -> Iterator[PluginTable]:
        """Yield the tables of hooks or servers: of files, and those in the manifest itself."""
        given = self._manifest.get(key)
        items = given if isinstance(given, list) else [] if given is None else [given]
        named = [one for one in items if isinstance(one, str)]
        seen: set[Path] = set()
        for place in (*_PARTS[key].places, *named):
            for path in self._existing(key, place, wanted=place in named):
                if path in seen:
                    continue
                seen.add(path)
                try:
                    yield PluginTable(path, _unwrap(read_table(path), key))
                except Unusable as error:
                    self.problems.append(error.as_problem(path))
        for one in items:
            if isinstance(one, Mapping):
                yield PluginTable(self._source, _unwrap(one, key))
            elif not isinstance(one, str):
                self._report(f"`{key}` is {show(one)}, neither a path nor a table", "Write one of them.")

    def inline_commands(self) -> Iterator[PluginTable]:
        """Yield the commands whose text is in the manifest itself."""
        given = self._manifest.get("commands")
        if isinstance(given, Mapping):
            for name, one in given.items():
                if not isinstance(one, Mapping) or not {"source", "content"} & one.keys():
                    self._report(f"the command {show(name)} has neither source nor content", "Give it one of them.")
            content = {
                str(name): {**one, "template": one["content"]}
                for name, one in given.items()
                if isinstance(one, Mapping) and isinstance(one.get("content"), str)
            }
            if content:
                yield PluginTable(self._source, content)

    def _existing(self, key: str, place: Any, *, wanted: bool) -> Iterator[Path]:
        try:
            path = inside_folder(self._folder, place)
        except Unusable as error:
            self._report(f"`{key}`: {error.message}", error.remedy)
            return
        look_for(path)
        if path.exists():
            yield path
        elif wanted:
            self._report(f"`{key}` names {show(place)}, which does not exist", "Correct the path.")

    def _report(self, message: str, remedy: str) -> None:
        self.problems.append(_problem(self._source, message, remedy))


def inside_folder(folder: Path, place: Any) -> Path:
    """Return a path below the plugin's folder. Raises `Unusable`."""
    remedy = "Name a path inside the plugin that begins with ./"
    if not isinstance(place, str) or not place.strip() or "\0" in place:
        raise Unusable(f"{show(place)} is no path", remedy)
    if os.path.isabs(place) or place.startswith("~") or "\\" in place or ".." in Path(place).parts:
        raise Unusable(f"{show(place)} leads out of the plugin", remedy)
    path = Path(os.path.normpath(folder / place))
    if not resolve(path).is_relative_to(resolve(folder)):
        raise Unusable(f"{show(place)} is a link that leads out of the plugin", "Put the file there itself.")
    return path


def _unwrap(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the table itself where it has its key around it."""
    inner = table.get(key)
    return inner if isinstance(inner, Mapping) else {} if key in table else table


def _listed(given: Any) -> list[Any] | None:
    if isinstance(given, str):
        return [given]
    return given if isinstance(given, list) else None


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) and len(value) <= 100 else ""


def _problem(path: Path, message: str, remedy: str) -> Problem:
    return Problem(path=show_path(path), message=message, remedy=remedy)
