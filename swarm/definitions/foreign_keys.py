"""The table of keys in other systems' settings files, each with its fate here. A key that is not in it is unknown, and reported.

Readers of permissions report from it, and `swarm compat` and `docs/reference/compat.md` show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from swarm.definitions.jsonc import OWN_SETTINGS, WORKSPACE_SETTINGS
from swarm.definitions.opencode import CONFIG_NAMES

System = Literal["claude", "opencode", "codex"]
Fate = Literal["applied", "applied differently", "not applied"]


class KeyFate(NamedTuple):
    """The fate of one key."""

    fate: Fate
    told: str = ""
    """How it is applied, or why not."""
    guards: bool = False
    """The key restricts agents in its own system."""


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
        **dict.fromkeys(("availableModels", "deniedModels"), KeyFate("not applied", "models are not limited by it", guards=True)),
        "allowedMcpServers": KeyFate("not applied", "deniedMcpServers holds", guards=True),
        "disableSkillShellExecution": KeyFate("not applied", "a person's command runs its own commands read-only", guards=True),
        "skillOverrides": KeyFate("not applied", "a rule `Skill(name)` denies a skill", guards=True),
        "env": KeyFate("not applied", "commands get a cleaned environment"),
        "model": KeyFate("not applied", "use --model or SWARM_MODEL"),
        "agent": KeyFate("not applied", "use --agent"),
        "effortLevel": KeyFate("not applied", "a definition's `effort` holds"),
        "enabledPlugins": KeyFate("not applied", "plugins are not read"),
    },
    "opencode": {
        **dict.fromkeys(("permission", "permissions"), KeyFate("applied", "no agent's own entry lifts a deny or an ask")),
        "tools": KeyFate("applied differently", "for the agents of OpenCode's files"),
        **dict.fromkeys(("agent", "agents", "mode", "mcp", "command", "commands", "instructions"), KeyFate("applied")),
        "skills": KeyFate("applied", "addresses are not fetched"),
        "model": KeyFate("not applied", "use --model or SWARM_MODEL"),
        "default_agent": KeyFate("not applied", "use --agent"),
        **dict.fromkeys(("plugin", "plugins"), KeyFate("not applied", "plugins are not read")),
    },
    "codex": {
        **dict.fromkeys(("agents", "mcp_servers", "hooks", "profile", "profiles"), KeyFate("applied")),
        "features": KeyFate("applied differently", "`hooks` alone"),
        **dict.fromkeys(("sandbox_mode", "approval_policy"), KeyFate("applied differently", "as the mode, and for roles")),
        **dict.fromkeys(("permissions", "default_permissions"), KeyFate("not applied", _NOT_YET, guards=True)),
        "model": KeyFate("not applied", "use --model or SWARM_MODEL"),
        **dict.fromkeys(("developer_instructions", "project_doc_fallback_filenames"), KeyFate("not applied", "write an AGENTS.md")),
    },
}
"""The known keys, by system."""
# fmt: on
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


def list_settings(workspace: Path, home: Path) -> list[tuple[Path, System]]:
    """Return the places of settings files, each once: the person's, then the workspace's."""
    opencode = [home / ".config/opencode" / name for name in CONFIG_NAMES]
    opencode += [workspace / folder / name for folder in ("", ".opencode") for name in CONFIG_NAMES]
    places: list[tuple[Path, System]] = [(home / name, "claude") for name in OWN_SETTINGS]
    places += [(workspace / name, "claude") for name in WORKSPACE_SETTINGS]
    places += [(path, "opencode") for path in opencode]
    places += [(folder / ".codex/config.toml", "codex") for folder in (home, workspace)]
    return list(dict.fromkeys(places))
