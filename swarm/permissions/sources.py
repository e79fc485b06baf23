"""Reads permission rules from settings files.

It reads Claude Code's `permissions` tables (user, project, local), the same table in this project's own settings files,
and OpenCode's `permission` tables. An unusable entry is a `Problem` of its file, and the others load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

from swarm.core.errors import ConfigurationError
from swarm.definitions.codex import read_codex_table
from swarm.definitions.foreign_keys import System, find_unapplied
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import MANAGED, MANAGED_SETTINGS, OWN_SETTINGS, WORKSPACE_SETTINGS, read_table
from swarm.definitions.mcp.reader import load_servers
from swarm.definitions.mcp.servers import server_of
from swarm.definitions.model import PermissionMode
from swarm.definitions.names import is_known_tool, split_pattern, suggest
from swarm.definitions.sources import (
    Problem,
    Unusable,
    enumerate_briefly,
    list_files,
    read_text,
    show,
    show_path,
    show_place,
)
from swarm.definitions.tools import EDIT, SHELL, is_mcp, known_tools, row_of
from swarm.permissions.codex_rules import read_codex_rules
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.modes import at_most
from swarm.permissions.opencode_rules import read_opencode_permission
from swarm.permissions.rules import Action, InvalidRule, Rule, Rules, parse_rule
from swarm.workspace.home import find_folder

__all__ = ["PermissionSettings", "definition_rules", "load_permission_settings"]

COMMAND_LINE = "the command line"
"""The source of rules in an order, however it was submitted."""
_ACTIONS: tuple[Action, ...] = ("allow", "ask", "deny")
_MODE_NAMES: Mapping[str, PermissionMode] = {
    **{mode.lower(): mode for mode in get_args(PermissionMode)},
    "manual": "default",
}
_MAX_ENTRIES = 2_000


@dataclass(frozen=True)
class PermissionSettings:
    """The permissions in all settings files together."""

    rules: Rules
    default_mode: PermissionMode | None = None
    """The mode of a job that names none, from the nearest file."""
    problems: tuple[Problem, ...] = ()
    folders: tuple[str, ...] = ()
    """Additional folders that agents may work in; absolute and resolved."""
    grants: tuple[Grant, ...] = ()
    """Permissions that files of the workspace ask for. The fields above contain them only if the files were loaded as trusted."""


def load_permission_settings(
    workspace: Path,
    home: Path,
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
    trusted: bool = False,
    managed: Path = MANAGED,
) -> PermissionSettings:
    """Load the rules and the default mode of a workspace; the three lists are the command line's, `managed` the administrator's folder.

    Files of the workspace can always restrict. They can loosen only if `trusted`.
    """
    loading = _Loading(workspace, home, trusted)
    given: dict[Action, Iterable[str]] = {"allow": allow, "ask": ask, "deny": deny}
    for action, entries in given.items():
        for entry in entries:
            loading.add_entry(entry, action, _Origin(Path(COMMAND_LINE), COMMAND_LINE, in_file=False))
    # From the farthest to the nearest, so that the nearest default mode is the last one.
    own = [home / name for name in OWN_SETTINGS]
    loading.read_settings(managed / MANAGED_SETTINGS, "managed")
    for path in own:
        loading.read_settings(path, "user")
    for path in (workspace / name for name in WORKSPACE_SETTINGS):
        if path not in own:
            loading.read_settings(path, "local" if "local" in path.name else "project")
    for folder, scope in ((home / ".config" / "opencode", "user"), (workspace, "project")):
        for name in ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"):
            loading.read_opencode(folder / name, scope)
    for folder, scope in ((home, "user"), (workspace, "project")):
        if scope == "user" or folder != home:
            loading.read_codex(folder / ".codex", scope)
    loading.report_mcp_rules()
    return PermissionSettings(
        rules=Rules(rules=tuple(dict.fromkeys(loading.rules))),
        default_mode=loading.mode,
        problems=tuple(loading.problems),
        grants=tuple(dict.fromkeys(loading.grants)),
        folders=tuple(dict.fromkeys(loading.folders)),
    )


@dataclass(frozen=True)
class _Origin:
    """The origin of an entry."""

    path: Path
    source: str
    """The origin in words, as in `Rule.source`."""
    in_workspace: bool = False
    in_file: bool = True


@dataclass
class _Loading:
    workspace: Path
    home: Path
    trusted: bool
    rules: list[Rule] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    mode: PermissionMode | None = None
    grants: list[Grant] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    mcp_rules: dict[Path, list[str]] = field(default_factory=dict)

    def origin(self, path: Path, scope: str) -> _Origin:
        return _Origin(
            path, f"{scope} settings ({show_place(path, self.workspace, self.home)})", scope in ("project", "local")
        )

    def may_loosen(self, text: str, origin: _Origin, content: str = "") -> bool:
        """Report whether a loosening entry counts. One of the workspace is noted as a grant and needs trust."""
        if not origin.in_workspace:
            return True
        self.grants.append(Grant(text=text, source=origin.source, content=content))
        return self.trusted

    def add_rule(self, rule: Rule, origin: _Origin) -> None:
        unless = f" unless {', '.join(rule.unless)}" if rule.unless else ""
        if rule.action != "allow" or self.may_loosen(f"allow {rule.text}{unless}", origin):
            self.rules.append(rule)

    def report(self, path: Path, message: str, remedy: str, *, guards: bool = False) -> None:
        self.problems.append(Problem(path=show_path(path), message=message, remedy=remedy, guards=guards))

    def add_entry(self, entry: object, action: Action, origin: _Origin) -> None:
        try:
            rule = parse_rule(entry, action, origin.source)
        except InvalidRule as error:
            self.report(
                origin.path, f"`{action}` rule {error.entry}: {error.problem}", error.remedy, guards=action != "allow"
            )
            return
        if origin.in_file and action == "allow" and (fault := _explain_unconsulted(str(entry), rule)):
            self.report(origin.path, f"`allow` rule {show(str(entry))}: {fault[0]}", fault[1])
            return
        self.add_rule(rule, origin)
        if is_mcp(rule.tool):
            self.mcp_rules.setdefault(origin.path, []).append(rule.text)
        elif not is_known_tool(rule.tool):
            hint = suggest(rule.tool, known_tools())
            self.report(
                origin.path,
                f"`{action}` rule {show(rule.text)}: there is no tool {show(rule.tool)}{hint}",
                "It is kept, in case a worker offers it.",
            )

    def report_mcp_rules(self) -> None:
        """Report once the rules for tools of MCP servers that are not configured for the workspace."""
        if not self.mcp_rules:
            return
        known = load_servers(self.workspace, self.home).keys
        idle = [
            (path, rule)
            for path, rules in self.mcp_rules.items()
            for rule in rules
            if not any(fnmatchcase(key, server_of(rule)) for key in known)
        ]
        if idle:
            path, rule = idle[0]
            message = f"no MCP server is configured for {len(idle)} rules about their tools ({rule} …)"
            self.report(path, message, "They are kept.")

    def read_settings(self, path: Path, scope: str) -> None:
        content = self._read(path)
        self._tell_unapplied(path, content, "claude")
        table = content.get("permissions")
        if table is None:
            return
        if not isinstance(table, Mapping):
            self.report(path, "`permissions` is not a table", 'Write for example {"allow": ["Bash(git log:*)"]}.')
            return
        origin = self.origin(path, scope)
        for key, value in table.items():
            if key in _ACTIONS:
                self._take_list(key, value, origin)
            elif key == "defaultMode":
                self._take_mode(value, origin)
            elif key == "additionalDirectories":
                self._take_folders(value, origin)
            else:
                known = suggest(str(key), [*_ACTIONS, "defaultMode", "additionalDirectories"])
                lost = f"`permissions.{show(key)}` is not supported{known}"
                self.report(path, lost, "It has no effect here.", guards=str(key).startswith("disable"))

    def _take_folders(self, value: Any, origin: _Origin) -> None:
        if not isinstance(value, list) or not all(isinstance(folder, str) for folder in value):
            self.report(origin.path, "`permissions.additionalDirectories` is not a list of folders", 'Write ["~/x"].')
            return
        for given in value:
            try:
                folder = find_folder(self.workspace, given)
            except ConfigurationError as error:
                self.report(origin.path, f"`permissions.additionalDirectories`: {error}", "It is left out.")
                continue
            if self.may_loosen(f"work in the folder {folder}, too", origin):
                self.folders.append(str(folder))

    def read_opencode(self, path: Path, scope: str) -> None:
        content = self._read(path)
        self._tell_unapplied(path, content, "opencode")
        origin = self.origin(path, scope)
        given = content.get("permission"), content.get("permissions")
        self._take_translated(*read_opencode_permission(*given, source=origin.source), origin)

    def read_codex(self, folder: Path, scope: str) -> None:
        """Read Codex's sandbox and approvals as the mode, which only becomes stricter, and its command rules."""
        path = folder / "config.toml"
        try:
            content = read_codex_table(path)
        except Unusable as error:
            self.problems.append(error.as_problem(path, guards=True))
            content = {}
        self._tell_unapplied(path, content, "codex")
        if (mode := _mode_of_codex(content)) is not None:
            self.mode = at_most(mode, self.mode or "acceptEdits")
        for file in list_files(folder / "rules", (".rules",), self.problems):
            origin = self.origin(file, scope)
            try:
                self._take_translated(*read_codex_rules(read_text(file), origin.source), origin)
            except Unusable as error:
                self._take_translated([Rule(action="ask", tool=SHELL, source=origin.source)], [error], origin)

    def _take_translated(self, rules: Iterable[Rule], problems: Iterable[Unusable], origin: _Origin) -> None:
        for rule in rules:
            self.add_rule(rule, origin)
        self.problems.extend(problem.as_problem(origin.path) for problem in problems)

    def _tell_unapplied(self, path: Path, content: Mapping[str, Any], system: System) -> None:
        if unapplied := find_unapplied(content, system):
            shown = enumerate_briefly([f"`{key}`" for key in unapplied])
            guards = any(one.guards for one in unapplied.values())
            remedy = "`swarm compat` has the reasons."
            self.report(path, f"not supported here and without effect: {shown}", remedy, guards=guards)

    def _read(self, path: Path) -> Mapping[str, Any]:
        try:
            return read_table(path)
        except Unusable as error:
            self.problems.append(error.as_problem(path, guards=True))  # it may have denied something
            return {}

    def _take_list(self, action: Action, value: Any, origin: _Origin) -> None:
        path = origin.path
        if not isinstance(value, list):
            self.report(path, f"`permissions.{action}` is not a list", 'Write for example ["Bash(git log:*)"].')
            return
        if len(value) > _MAX_ENTRIES:
            self.report(path, f"`permissions.{action}` has more than {_MAX_ENTRIES} entries", "Use wildcards.")
        for entry in value[:_MAX_ENTRIES] if action == "allow" else value:
            self.add_entry(entry, action, origin)

    def _take_mode(self, value: Any, origin: _Origin) -> None:
        mode = _MODE_NAMES.get(value.lower()) if isinstance(value, str) else None
        if mode is None:
            remedy = f"Write one of {', '.join(get_args(PermissionMode))}."
            self.report(origin.path, f"`permissions.defaultMode` is {show(value)}", remedy)
        elif at_most(mode, self.mode or "default") == mode or self.may_loosen(f"the mode {mode}", origin):
            self.mode = mode


def _mode_of_codex(content: Mapping[str, Any]) -> PermissionMode | None:
    """Return the mode that permits at most what Codex's sandbox and approvals do; None if they limit nothing."""
    sandbox, approval = content.get("sandbox_mode"), content.get("approval_policy")
    if sandbox == "read-only":
        return "dontAsk" if approval == "never" else "default"
    return "default" if approval == "untrusted" or isinstance(approval, Mapping) else None


def _explain_unconsulted(entry: str, rule: Rule) -> tuple[str, str] | None:
    """Explain why an allow entry has no effect in Claude Code, whose format this is, with a remedy; None if it has one.

    In Claude Code only rules for `Edit` and `Read` have paths, and names have one spelling. Other readings would allow more.
    """
    row = row_of(rule.tool)
    name = split_pattern(entry)[0]
    if row.writes_files and rule.tool != EDIT and rule.spec is not None:
        return f"paths in rules that allow {rule.tool} are not consulted", f"Write {EDIT}({rule.spec})."
    if name != rule.tool and not row.is_internal and (row.has_effects or row.network):
        return f"there is no tool {show(name)}", f"If {rule.tool} is meant, write {rule.text}."
    return None
