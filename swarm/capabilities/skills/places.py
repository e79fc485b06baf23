"""Find skills and commands; of equal names the project's nearest folder wins, then the person's own.

Two skills whose folders differ both exist: the second goes by its folder's name. A workspace's skills are text for agents and permit
nothing. A workspace skill with a name of one of the person's own would replace it.
That is a `Grant`, which counts only while the person trusts the workspace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from swarm.capabilities.skills.model import SKILL_FILE, Skill, Skills
from swarm.capabilities.skills.reader import make_command, read_command, read_skill
from swarm.core.memo import look_at
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import read_table
from swarm.definitions.opencode import CONFIG_NAMES
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.model import Brought, Plugin
from swarm.definitions.sources import (
    Problem,
    Unusable,
    config_folder,
    is_folder,
    list_files,
    project_folders,
    resolve,
    show_place,
)
from swarm.permissions.preferences import load_preferences

MAX_TOTAL_BYTES = 24 * 1024 * 1024
"""Most bytes of all packages of a job, as stored."""
_SKILL_DEPTH = 4
_MAX_LOOKED_AT = 5_000
_SYSTEMS = (".swarm", ".claude", ".opencode", ".codex", ".agents", ".deepagents", ".github", ".cursor", ".gemini")
_SKILLS = ("skills", "skill")
_COMMANDS = ("commands", "command")
_Made = tuple[Skill, str]


class _FoundSkills(NamedTuple):
    skill: Skill
    document: str
    own: bool


def load_skills(workspace: Path | None, home: Path | None = None, *, trusted: bool = False) -> Skills:
    """Load all skills and commands of a workspace; never raises because of a file's content."""
    reading = _SkillReader(workspace, home)
    for folder in project_folders(workspace):
        for system in _SYSTEMS:
            reading.take(folder / system, reading.root, own=False)
        reading.take_configuration(folder, own=False)
    if reading.home is not None:
        for system in _SYSTEMS:
            reading.take(reading.home / system, None, own=True)
        for name in ("swarm", "opencode"):
            reading.take(reading.config / name, None, own=True)
        reading.take_configuration(reading.config / "opencode", own=True)
        reading.take_prompts(reading.home / ".codex" / "prompts")
    for plugin in load_plugins(workspace, home).counting(trusted=trusted):
        reading.take_plugin(plugin)
    found = reading.merge(trusted)
    if reading.workspace is None or reading.home is None:
        return found
    return _restrict(found, load_preferences(reading.workspace, reading.home).skills)


def _restrict(found: Skills, uses: Mapping[str, str]) -> Skills:
    """Apply `skillOverrides` of settings, which name a skill or its folder."""
    kept = []
    for skill in found.skills:
        used = {uses.get(name.casefold(), "on") for name in (skill.name, skill.folder)}
        if "off" in used:
            continue
        update = {"by_model": False} if "user-invocable-only" in used else {}
        kept.append(skill.model_copy(update=update | ({"description": ""} if "name-only" in used else {})))
    return found.model_copy(update={"skills": kept})


def list_brought(plugin: Plugin) -> Brought:
    """List the skills and commands of a plugin."""
    reading = _SkillReader(None, None)
    reading.take_plugin(plugin)
    found = reading.merge(True)
    hidden = [Problem(path=one, message=f"it is hidden by {by}", remedy="Rename one.") for one, by in found.hidden]
    names = {f"{kind}s": [one.name for one in found.skills if one.kind == kind] for kind in ("skill", "command")}
    return Brought(names, [*found.problems, *hidden])


class _SkillReader:
    def __init__(self, workspace: Path | None, home: Path | None) -> None:
        folders = project_folders(workspace)
        self.root = folders[-1] if folders else None
        self.workspace = folders[0] if folders else None
        self.home: Path | None = None
        try:
            self.home = home or Path.home()
        except RuntimeError:
            pass  # a user without a home
        self.config = config_folder(self.home or Path())
        self.found: list[_FoundSkills] = []
        self.problems: list[Problem] = []
        self._seen: set[Path] = set()

    def take(self, folder: Path, boundary: Path | None, *, own: bool) -> None:
        """Take all skills of one system's folder."""
        # A home that is also the project is the person's own.
        if own or self.home is None or folder.parent != self.home:
            for skills in (folder / name for name in _SKILLS):
                for path in _find_skills(skills) if is_folder(skills) else ():
                    self._read(path, lambda path: read_skill(path, boundary, self.name(path)), own)
            for commands in (folder / name for name in _COMMANDS):
                self._take_commands(commands, boundary, own)

    def take_prompts(self, folder: Path) -> None:
        """Take Codex's prompts of the person: commands called `prompts:NAME`."""
        self._take_commands(folder, None, True, "prompts:")

    def take_plugin(self, plugin: Plugin) -> None:
        """Take a plugin's skills and commands, called `PLUGIN:NAME`."""
        inside = plugin.folder
        for folder in plugin.skills:
            for path in _find_skills(folder) if is_folder(folder) else ():
                self._read(path, lambda path: read_skill(path, inside, self.name(path), plugin), True)
        for place in plugin.commands:
            base = place if is_folder(place) else place.parent
            for path in list_files(place, (".md",), self.problems) if is_folder(place) else [place]:
                if path.stem.upper() != "README":
                    self._read(path, partial(_read_plugin_command, plugin, base, self.name(path)), True)
        for table in plugin.command_tables:
            for name, entry in table.content.items():
                self._add(table.path, partial(make_command, name, entry, self.name(table.path), plugin), True)

    def take_configuration(self, folder: Path, *, own: bool) -> None:
        """Take the commands of OpenCode's configuration, and the skills in the folders that it names."""
        for path in (folder / name for name in CONFIG_NAMES):
            try:
                content = read_table(path)
            except Unusable:
                continue  # the reader of its agents reports it
            for skills in _named_folders(content.get("skills"), folder):
                for file in _find_skills(skills) if is_folder(skills) else ():
                    boundary = None if own else self.root
                    self._read(file, lambda file, boundary=boundary: read_skill(file, boundary, self.name(file)), own)  # type: ignore[misc]
            tables = [content[key] for key in ("command", "commands") if isinstance(content.get(key), Mapping)]
            for name, entry in (item for table in tables for item in table.items()):
                if isinstance(entry, Mapping):
                    self._add(path, partial(make_command, str(name), entry, self.name(path)), own)

    def merge(self, trusted: bool) -> Skills:
        """Merge the skills in the order in which they were found; the first of a name wins."""
        mine = {name for one in self.found if one.own for name in _called(one.skill)}
        replacing = [one for one in self.found if not one.own and mine & _called(one.skill)]
        winners: dict[str, _FoundSkills] = {}
        hidden: list[tuple[str, str]] = []
        room = MAX_TOTAL_BYTES
        for one in self.found if trusted else [one for one in self.found if one not in replacing]:
            key, one = _choose_name(one, winners)
            if key in winners:
                hidden.append((one.skill.source, winners[key].skill.source))
            elif len(one.document) > room:
                self.problems.append(_too_much(one.skill))
            else:
                winners[key] = one
                room -= len(one.document)
        return Skills(
            skills=[one.skill for _, one in sorted(winners.items())],
            packages={one.skill.digest: one.document for one in winners.values()},
            problems=self.problems,
            hidden=hidden,
            grants=[_grant(one.skill) for one in replacing],
        )

    def name(self, path: Path) -> str:
        """A path as people can find it."""
        return show_place(path, self.workspace, self.home)

    def _take_commands(self, folder: Path, boundary: Path | None, own: bool, prefix: str = "") -> None:
        for path in list_files(folder, (".md",), self.problems):
            if path.stem.upper() != "README":
                self._read(path, lambda path: read_command(path, folder, boundary, self.name(path), prefix), own)

    def _read(self, path: Path, read: Callable[[Path], _Made], own: bool) -> None:
        real = resolve(path)
        if real not in self._seen:  # one folder is often a link to another system's
            self._seen.add(real)
            self._add(path, lambda: read(path), own)

    def _add(self, path: Path, make: Callable[[], _Made], own: bool) -> None:
        try:
            self.found.append(_FoundSkills(*make(), own))
        except Unusable as error:
            self.problems.append(error.as_problem(path))


def _read_plugin_command(plugin: Plugin, base: Path, shown: str, path: Path) -> _Made:
    return read_command(path, base, plugin.folder, shown, plugin=plugin)


def _named_folders(value: object, folder: Path) -> list[Path]:
    """Return the folders in OpenCode's `skills`, a list, or `skills.paths`; addresses are not fetched."""
    listed = value.get("paths") if isinstance(value, Mapping) else value
    names = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return [folder / os.path.expanduser(name) for name in names if "://" not in name]


def _called(skill: Skill) -> set[str]:
    return {name.casefold() for name in (skill.name, skill.folder) if name}


def _too_much(skill: Skill) -> Problem:
    return Problem(
        path=skill.source,
        message=f"{skill.name} is left out: skills have more than {MAX_TOTAL_BYTES // 1024**2} MiB in all",
        remedy="Remove large files from them.",
    )


def _find_skills(folder: Path) -> Iterator[Path]:
    """Yield each `SKILL.md` below a folder, sorted; files below a skill belong to it."""
    pending, looked_at, seen = [(folder, 0)], 0, set()
    while pending:
        current, depth = pending.pop(0)
        look_at(current)
        try:
            status, entries = current.stat(), sorted(os.listdir(current))
        except OSError:
            continue
        looked_at += len(entries)
        if (status.st_dev, status.st_ino) in seen or looked_at > _MAX_LOOKED_AT:
            continue
        seen.add((status.st_dev, status.st_ino))
        name = next((name for name in entries if name.lower() == SKILL_FILE.lower()), None)
        if name is not None:
            yield current / name
        elif depth < _SKILL_DEPTH:
            below = (current / name for name in entries if name != "node_modules" and not name.startswith("."))
            pending += [(path, depth + 1) for path in below if is_folder(path)]


def _choose_name(one: _FoundSkills, winners: Mapping[str, _FoundSkills]) -> tuple[str, _FoundSkills]:
    """Return the key of a skill; one whose name is taken by another folder's is called like its folder."""
    key, folder = one.skill.name.casefold(), one.skill.folder.casefold()
    if key in winners and folder and folder not in {winners[key].skill.folder.casefold(), *winners}:
        return folder, one._replace(skill=one.skill.model_copy(update={"name": one.skill.folder, "folder": ""}))
    return key, one


def _grant(skill: Skill) -> Grant:
    return Grant(text=f"the {skill.kind} {skill.name}, in place of your own", source=skill.source, content=skill.digest)
