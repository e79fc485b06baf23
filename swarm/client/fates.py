"""Lists everything that lies where other systems look, each entry with its fate in this workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from swarm.client.project import Project
from swarm.definitions.codex import read_codex_table
from swarm.definitions.foreign_keys import ForeignEntry, KeyFate, fate_of, list_files_there, list_settings
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import read_table
from swarm.definitions.sources import Problem, Unusable, show_place

_APPLIED = KeyFate("applied")
_WAITS = KeyFate("not applied", "it would allow more: `swarm trust` lets it")
_OFF = KeyFate("not applied", "a configuration switches it off")


def list_entries(project: Project, workspace: Path, home: Path) -> list[ForeignEntry]:
    """List files, keys, rules, servers, what capabilities add, and the problems, in this order."""
    return [
        *list_files_there(workspace),
        *_list_keys(workspace, home),
        *(
            ForeignEntry(rule.source, "rule", f"{rule.action} {rule.text}", _APPLIED)
            for rule in project.permissions.rules.rules
        ),
        *_list_servers(project),
        *(entry for part in project.parts.values() for entry in part.entries),
        *(_list_waiting(project) if not project.trusted else ()),
        *(_tell_problem(one, workspace, home) for one in project.problems),
    ]


def _list_keys(workspace: Path, home: Path) -> list[ForeignEntry]:
    found = []
    for file, system in list_settings(workspace, home):
        try:
            content = read_codex_table(file) if system == "codex" else read_table(file)
        except Unusable:
            continue  # one of the problems
        place = show_place(file, workspace, home)
        found += [
            ForeignEntry(place, "key", str(key), fate_of(system, str(key), value)) for key, value in content.items()
        ]
    return found


def _list_servers(project: Project) -> list[ForeignEntry]:
    configured = project.configured
    return [
        *(ForeignEntry(one.source, "server", one.name, _APPLIED) for one in configured.servers),
        *(ForeignEntry(one.source, "server", one.name, _WAITS) for one in configured.untrusted),
        *(ForeignEntry("", "server", name, _OFF) for name in configured.off),
    ]


def _list_waiting(project: Project) -> list[ForeignEntry]:
    grants: tuple[tuple[Literal["rule", "key"], tuple[Grant, ...]], ...] = (
        ("rule", project.permissions.grants),
        ("key", project.preferences.grants),
    )
    return [ForeignEntry(one.source, kind, one.text, _WAITS) for kind, listed in grants for one in listed]


def _tell_problem(problem: Problem, workspace: Path, home: Path) -> ForeignEntry:
    place = show_place(Path(problem.path), workspace, home)
    at = place if problem.line is None else f"{place}:{problem.line}"
    return ForeignEntry(at, "problem", problem.message, KeyFate("not applied", problem.remedy, problem.guards))
