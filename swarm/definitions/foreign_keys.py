"""The table of files and keys of other systems, each with its fate here. One that is not in it is unknown, and reported.

Readers of permissions report from it, and `swarm compat` and `docs/reference/compat.md` show it. A test changes each applied key, and
asks whether a job changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from swarm.core.memo import look_at
from swarm.definitions.jsonc import MANAGED, MANAGED_SETTINGS, OWN_SETTINGS, WORKSPACE_SETTINGS
from swarm.definitions.opencode import CONFIG_NAMES

System = Literal["claude", "opencode", "codex"]
Fate = Literal["applied", "applied differently", "not applied"]


class KeyFate(NamedTuple):
    """The fate of one key, or of another entry."""

    fate: Fate
    told: str = ""
    """How it is applied, or why not."""
    guards: bool = False
    """The key restricts agents in its own system."""


class ForeignEntry(NamedTuple):
    """A file, key, rule, server, hook or problem where another system looks, with its fate."""

    place: str
    """The file, as shown to people."""
    kind: Literal["file", "key", "rule", "server", "hook", "problem"]
    name: str
    fate: KeyFate


_UNKNOWN = KeyFate("not applied", "unknown here")
_SCREEN = KeyFate("not applied", "it is about that program's screen, files or account, not about agents")
_NOT_YET = "nothing here takes it"
_OF_SCREENS: Mapping[System, str] = {
    "claude": "$schema statusLine theme spinnerTipsEnabled editorMode verbose cleanupPeriodDays",
    "opencode": "$schema theme tui keybinds share autoshare autoupdate update username",
    "codex": "tui notice projects history file_opener check_for_update_on_startup analytics",
}
# fmt: off
KEYS: Mapping[System, Mapping[str, KeyFate]] = {
    "claude": {
        **dict.fromkeys(("permissions", "mcpServers", "disabledMcpjsonServers", "deniedMcpServers"), KeyFate("applied")),
        **dict.fromkeys(("disableAllHooks", "claudeMdExcludes"), KeyFate("applied")),
        "hooks": KeyFate("applied", "events and types without a counterpart are reported"),
        "sandbox": KeyFate("not applied", "the sandbox is on where the host has one, but takes no paths or hosts from it", guards=True),
        "availableModels": KeyFate("applied differently", "for first agents, types and calls of Agent; others take their parent's model"),
        "deniedModels": KeyFate("not applied", "models are not limited by it", guards=True),
        "allowedMcpServers": KeyFate("not applied", "deniedMcpServers holds", guards=True),
        "disableSkillShellExecution": KeyFate("not applied", "a person's command runs its own commands read-only", guards=True),
        "skillOverrides": KeyFate("applied", "the strictest of all files"),
        "env": KeyFate("applied differently", "for commands, without secrets and names that programs obey"),
        "model": KeyFate("applied", "--model, SWARM_MODEL and a type's own come first"),
        "agent": KeyFate("applied", "--agent comes first"),
        "effortLevel": KeyFate("applied", "for types that name neither effort nor model"),
        "enabledPlugins": KeyFate("applied", "what a workspace's file enables or disables counts once it is trusted"),
        "extraKnownMarketplaces": KeyFate("applied differently", "folders only; `swarm plugins add` takes the others"),
    },
    "opencode": {
        **dict.fromkeys(("permission", "permissions"), KeyFate("applied", "no agent's own entry lifts a deny or an ask")),
        "tools": KeyFate("applied differently", "for the agents of OpenCode's files"),
        **dict.fromkeys(("agent", "agents", "mode", "mcp", "command", "commands", "instructions"), KeyFate("applied")),
        "skills": KeyFate("applied", "addresses are not fetched"),
        "model": KeyFate("applied", "--model, SWARM_MODEL and a type's own come first"),
        "default_agent": KeyFate("applied", "--agent comes first"),
        **dict.fromkeys(("plugin", "plugins"), KeyFate("not applied", "plugins are not read")),
    },
    "codex": {
        **dict.fromkeys(("agents", "mcp_servers", "hooks", "plugins", "profile", "profiles"), KeyFate("applied")),
        "features": KeyFate("applied differently", "`hooks` alone"),
        **dict.fromkeys(("sandbox_mode", "approval_policy"), KeyFate("applied differently", "as the mode, and for roles")),
        **dict.fromkeys(("permissions", "default_permissions"), KeyFate("not applied", _NOT_YET, guards=True)),
        "model": KeyFate("applied", "a Claude model; --model, SWARM_MODEL and a type's own come first"),
        "model_reasoning_effort": KeyFate("applied", "for types that name neither effort nor model"),
        "developer_instructions": KeyFate("applied", "as an instruction file"),
        "project_doc_fallback_filenames": KeyFate("not applied", "write an AGENTS.md"),
    },
}
"""The known keys, by system."""
# fmt: on
_READ = KeyFate("applied")
_PROGRAM = KeyFate("not applied", "it is a program of that system; write a tool of your own")
FILES: Mapping[str, Mapping[str, KeyFate]] = {
    "": {
        **dict.fromkeys(
            ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md"),
            KeyFate("applied", "as an instruction file"),
        ),
        **dict.fromkeys((".mcp.json", "opencode.json", "opencode.jsonc"), _READ),
    },
    ".claude": {
        **dict.fromkeys(
            ("settings.json", "settings.local.json", "agents", "skills", "commands", "rules", "CLAUDE.md"), _READ
        ),
        "hooks": KeyFate("applied differently", "its programs run where settings name them"),
        "output-styles": KeyFate("not applied", "write an instruction file, or a type of agent"),
        "workflows": KeyFate("not applied", "a workflow is a program here"),
        "agent-memory": KeyFate("not applied", "memory is in stores; `swarm memory import` takes pages"),
        **dict.fromkeys(("worktrees", "plans", "scheduled_tasks.json", "keybindings.json", "themes"), _SCREEN),
    },
    ".opencode": {
        **dict.fromkeys(("agent", "agents", "mode", "modes", "command", "commands", "skill", "skills"), _READ),
        **dict.fromkeys(("opencode.json", "opencode.jsonc"), _READ),
        **dict.fromkeys(("plugin", "plugins", "tool", "tools"), _PROGRAM),
        **dict.fromkeys(("themes", "package.json", "bun.lock", "node_modules", ".gitignore"), _SCREEN),
    },
    ".codex": {**dict.fromkeys(("config.toml", "agents", "rules", "skills", "hooks.json"), _READ)},
    ".agents": {"skills": _READ},
}
"""The known files, by their folder in a workspace."""
_SANDBOX_SWITCHES = {
    "enabled",
    "autoAllowBashIfSandboxed",
    "failIfUnavailable",
    "allowUnsandboxedCommands",
    "excludedCommands",
}


def fate_of(system: System, key: str, value: Any) -> KeyFate:
    """Return the fate of a key with this value."""
    if key in _OF_SCREENS[system].split():
        return _SCREEN
    if key == "sandbox" and isinstance(value, Mapping) and set(value) <= _SANDBOX_SWITCHES:
        return KeyFate("applied differently", "the sandbox is always on where the host has one")
    return KEYS[system].get(key, _UNKNOWN)


def find_unapplied(content: Mapping[str, Any], system: System) -> dict[str, KeyFate]:
    """Return the keys with a value that have no effect on agents here, in order."""
    given = {str(key): value for key, value in content.items() if value not in (None, {}, [], "")}
    fates = {key: fate_of(system, key, value) for key, value in given.items()}
    return {key: one for key, one in fates.items() if one.fate == "not applied" and one is not _SCREEN}


def list_files_there(workspace: Path) -> list[ForeignEntry]:
    """List the files of other systems in a workspace; in their own folders, unknown ones too."""
    found = []
    for folder, known in FILES.items():
        look_at(workspace / folder)
        there = sorted(path.name for path in (workspace / folder).iterdir()) if (workspace / folder).is_dir() else []
        for name in there:
            if folder or name in known:
                found.append(ForeignEntry(f"{folder}/{name}".lstrip("/"), "file", "", known.get(name, _UNKNOWN)))
    return found


def list_settings(workspace: Path, home: Path) -> list[tuple[Path, System]]:
    """Return the places of settings files, each once: the administrator's, the person's, then the workspace's."""
    opencode = [home / ".config/opencode" / name for name in CONFIG_NAMES]
    opencode += [workspace / folder / name for folder in ("", ".opencode") for name in CONFIG_NAMES]
    places: list[tuple[Path, System]] = [(MANAGED / MANAGED_SETTINGS, "claude")]
    places += [(home / name, "claude") for name in OWN_SETTINGS]
    places += [(workspace / name, "claude") for name in WORKSPACE_SETTINGS]
    places += [(path, "opencode") for path in opencode]
    places += [(folder / ".codex/config.toml", "codex") for folder in (home, workspace)]
    return list(dict.fromkeys(places))
