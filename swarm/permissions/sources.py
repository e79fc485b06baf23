"""Reads permission rules out of the settings files that people already have.

Claude Code's `permissions` tables (user, project, local), the same table in this project's own settings files, and
OpenCode's `permission` tables. An entry that cannot be used is a `Problem` of its file, and the others load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from swarm.definitions.jsonc import parse_jsonc
from swarm.definitions.model import PermissionMode
from swarm.definitions.names import is_known_tool, suggest
from swarm.definitions.sources import Problem, Unusable, read_text, show, show_path
from swarm.definitions.tools import known_tools
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.opencode_rules import read_opencode_permission
from swarm.permissions.rules import Action, InvalidRule, Rule, Rules, parse_rule

__all__ = ["PermissionSettings", "definition_rules", "load_permission_settings", "load_rules"]

_ACTIONS: tuple[Action, ...] = ("allow", "ask", "deny")
_MODE_NAMES: Mapping[str, PermissionMode] = {
    **{mode.lower(): mode for mode in get_args(PermissionMode)},
    "manual": "default",
}
_MAX_ENTRIES = 2_000


@dataclass(frozen=True)
class PermissionSettings:
    """What all settings files together say about permissions."""

    rules: Rules
    default_mode: PermissionMode | None = None
    """The mode of a job that names none: the nearest file's word."""
    additional_directories: tuple[str, ...] = ()
    """Folders beside the workspace that its owner wants reachable; a project's own file cannot name any."""
    problems: tuple[Problem, ...] = ()


def load_rules(
    workspace: Path,
    home: Path,
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> tuple[Rules, list[Problem]]:
    """All rules that hold in a workspace, and what could not be taken; the three lists are the command line's."""
    settings = load_permission_settings(workspace, home, allow=allow, ask=ask, deny=deny)
    return settings.rules, list(settings.problems)


def load_permission_settings(
    workspace: Path,
    home: Path,
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> PermissionSettings:
    """The same with the default mode and the additional folders."""
    loading = _Loading()
    given: dict[Action, Iterable[str]] = {"allow": allow, "ask": ask, "deny": deny}
    for action, entries in given.items():
        for entry in entries:
            loading.add_entry(entry, action, "the command line", Path("the command line"))
    # From the farthest to the nearest, so that the nearest default mode is the last one.
    for path, scope in (
        (home / ".claude" / "settings.json", "user"),
        (home / ".config" / "swarm" / "settings.json", "user"),
        (workspace / ".claude" / "settings.json", "project"),
        (workspace / ".swarm" / "settings.json", "project"),
        (workspace / ".claude" / "settings.local.json", "local"),
    ):
        loading.read_settings(path, scope, f"{scope} settings ({_shown(path, workspace, home)})")
    for folder, scope in ((home / ".config" / "opencode", "user"), (workspace, "project")):
        for name in ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"):
            path = folder / name
            loading.read_opencode(path, f"{scope} settings ({_shown(path, workspace, home)})")
    return PermissionSettings(
        rules=Rules(rules=tuple(dict.fromkeys(loading.rules))),
        default_mode=loading.mode,
        additional_directories=tuple(dict.fromkeys(loading.folders)),
        problems=tuple(loading.problems),
    )


def _shown(path: Path, workspace: Path, home: Path) -> str:
    if path.is_relative_to(workspace):
        return show_path(path.relative_to(workspace))
    return f"~/{show_path(path.relative_to(home))}" if path.is_relative_to(home) else show_path(path)


@dataclass
class _Loading:
    rules: list[Rule] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    mode: PermissionMode | None = None
    folders: list[str] = field(default_factory=list)

    def report(self, path: Path, message: str, remedy: str) -> None:
        self.problems.append(Problem(path=show_path(path), message=message, remedy=remedy))

    def add_entry(self, entry: object, action: Action, source: str, path: Path) -> None:
        try:
            rule = parse_rule(entry, action, source)
        except InvalidRule as error:
            self.report(path, f"`{action}` rule {error.entry}: {error.problem}", error.remedy)
            return
        self.rules.append(rule)
        if not is_known_tool(rule.tool):
            hint = suggest(rule.tool, known_tools())
            self.report(
                path,
                f"`{action}` rule {show(rule.text)}: there is no tool {show(rule.tool)}{hint}",
                "It is kept, in case a worker offers it.",
            )

    def read_settings(self, path: Path, scope: str, source: str) -> None:
        content = self._read(path)
        if content is None:
            return
        table = content.get("permissions")
        if table is None:
            return
        if not isinstance(table, Mapping):
            self.report(path, "`permissions` is not a table", 'Write for example {"allow": ["Bash(git log:*)"]}.')
            return
        for key, value in table.items():
            if key in _ACTIONS:
                self._take_list(key, value, source, path)
            elif key == "defaultMode":
                self._take_mode(value, scope, path)
            elif key == "additionalDirectories":
                self._take_folders(value, scope, path)
            else:
                known = suggest(str(key), [*_ACTIONS, "defaultMode", "additionalDirectories"])
                self.report(path, f"`permissions.{show(key)}` is not supported{known}", "It has no effect here.")

    def read_opencode(self, path: Path, source: str) -> None:
        content = self._read(path)
        if content is None or content.get("permission") is None:
            return
        rules, problems = read_opencode_permission(content["permission"], source)
        self.rules.extend(rules)
        self.problems.extend(problem.as_problem(path) for problem in problems)

    def _read(self, path: Path) -> Mapping[str, Any] | None:
        try:
            if not path.exists():
                return None
            content = parse_jsonc(read_text(path))
        except OSError as error:
            self.report(path, f"cannot be read: {error.strerror}", "Check that it may be read.")
            return None
        except Unusable as error:
            self.problems.append(error.as_problem(path))
            return None
        if not isinstance(content, Mapping):
            self.report(path, "it is not a table", "Write an object in it.")
            return None
        return content

    def _take_list(self, action: Action, value: Any, source: str, path: Path) -> None:
        if not isinstance(value, list):
            self.report(path, f"`permissions.{action}` is not a list", 'Write for example ["Bash(git log:*)"].')
            return
        if len(value) > _MAX_ENTRIES:
            self.report(path, f"`permissions.{action}` has more than {_MAX_ENTRIES} entries", "Use wildcards.")
        for entry in value[:_MAX_ENTRIES] if action == "allow" else value:
            self.add_entry(entry, action, source, path)

    def _take_mode(self, value: Any, scope: str, path: Path) -> None:
        mode = _MODE_NAMES.get(value.lower()) if isinstance(value, str) else None
        if mode is None:
            remedy = f"Write one of {', '.join(get_args(PermissionMode))}."
            self.report(path, f"`permissions.defaultMode` is {show(value)}", remedy)
        elif mode == "bypassPermissions" and scope == "project":
            # Whoever writes a file into a repository must not thereby switch the questions of its users off.
            self.report(path, "a project cannot make bypassPermissions its default", "Give it on the command line.")
        else:
            self.mode = mode

    def _take_folders(self, value: Any, scope: str, path: Path) -> None:
        if not isinstance(value, list) or not all(isinstance(folder, str) for folder in value):
            self.report(path, "`permissions.additionalDirectories` is not a list of folders", 'Write ["~/x"].')
        elif scope == "project":
            self.report(
                path,
                "a project cannot give itself folders outside of it (`permissions.additionalDirectories`)",
                "Put it into the local or the user settings.",
            )
        else:
            self.folders.extend(value)
