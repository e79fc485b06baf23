"""Permission modes in their order, and the rule that a lasting approval leaves behind."""

from __future__ import annotations

import os
import re
from glob import escape
from pathlib import Path
from typing import Any

from swarm.definitions.model import DEFAULT_TYPE, AgentDefinition, PermissionMode
from swarm.definitions.tools import row_of
from swarm.permissions.path_rules import escape_path, locate
from swarm.permissions.rules import Rule, host_of
from swarm.permissions.shell.parse import parse_command
from swarm.permissions.shell.patterns import escape_pattern

MODES: tuple[PermissionMode, ...] = ("plan", "dontAsk", "bubble", "default", "acceptEdits", "auto", "bypassPermissions")
"""From the strictest to the most permissive.

`plan` is below `dontAsk`, since rules may allow that one effects; `dontAsk` is below the asking modes, since nobody can
lift its denials; `bubble` asks exactly where `default` does, but always the person at the top; `auto` allows what `acceptEdits` does, and
a small model may lift its questions.
"""
AFTER_PLAN: PermissionMode = "acceptEdits"
"""The mode that an approved plan is carried out in, unless the answer names another."""

_MULTI_COMMAND = frozenset(
    (
        *("git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "make", "uv", "pip", "pip3", "poetry", "hatch"),
        *("dotnet", "mvn", "gradle", "bundle", "rake", "just", "gh", "terraform", "swift", "mix", "composer"),
    )
)
"""Programs whose second word says what they do."""
_RUNNERS = frozenset({"run", "exec", "run-script", "x", "tool"})
_INTERPRETERS = re.compile(
    r"(python|pypy|node|nodejs|bun|deno|tsx|ts-node|ruby|perl|php|lua|bash|sh|zsh|dash|fish|env|xargs|npx)[\d.]*"
)
"""Programs that run whatever their arguments say: no two of their calls are of one kind."""
_NOUNS = frozenset({"config", "remote", "stash", "submodule", "worktree", "bisect", "state", "workspace", "cache"})
"""Second words of which only the third says what is done."""
_PLAIN_WORD = re.compile(r"[A-Za-z][\w.:-]*")
_APPROVAL = "an approval for good"


def at_most(child: PermissionMode, parent: PermissionMode) -> PermissionMode:
    """The mode of a child that wants `child` below a parent in `parent`: the stricter of the two.

    So plan mode is inherited, and nothing below an agent in plan mode can leave it.
    """
    return min(child, parent, key=MODES.index)


def first_mode(definition: AgentDefinition, above: PermissionMode) -> PermissionMode:
    """The mode an agent begins in: what its definition asks for, and at most what is above it (its parent, or the job)."""
    wanted = definition.permission_mode
    return above if wanted == "default" else at_most(wanted, above)


def always_rule(tool: str, given: dict[str, Any], *, workspace: Path, source: str = _APPROVAL) -> Rule:
    """The narrow rule that allows this call from now on, and what is plainly of its kind.

    For the shell the same subcommand with other arguments, or exactly this command; for edits the folder of the file.
    """
    return Rule(action="allow", tool=tool, spec=_narrow_spec(tool, given, workspace), source=source)


def _narrow_spec(tool: str, given: dict[str, Any], workspace: Path) -> str | None:
    row = row_of(tool)
    subject = given.get(row.subject)
    match row.matching:
        case "command":
            return _command_spec(str(subject or ""))
        case "edited" | "read":
            return _folder_spec(str(subject), workspace, row.subject == "path") if subject else None
        case "domain":
            # A host of `.invalid` exists nowhere: what cannot be read is approved this once only.
            return f"domain:{host_of(subject) or 'unreadable.invalid'}"
        case "type":
            return subject if isinstance(subject, str) and re.fullmatch(r"\w[\w.-]*", subject) else DEFAULT_TYPE
        case "value" if subject is not None:
            return escape(str(subject).lower() if isinstance(subject, bool) else str(subject))
    return None


def _command_spec(command: str) -> str:
    parsed = parse_command(command)
    exact = escape_pattern(command.strip())
    if parsed.opaque or len(parsed.parts) != 1 or parsed.writes:
        return exact
    words = parsed.parts[0].words
    if parsed.parts[0].assigned or len(words) < 2 or words[0] not in _MULTI_COMMAND:
        return exact
    kept = 3 if words[1] in _RUNNERS or words[1] in _NOUNS or words[0] == "gh" else 2
    if len(words) < kept or not all(_PLAIN_WORD.fullmatch(word) for word in words[:kept]):
        return exact
    if (words[1] in _RUNNERS and _INTERPRETERS.fullmatch(words[2])) or tuple(words[:2]) == ("gh", "api"):
        return exact
    return f"{' '.join(words[:kept])}:*"


def _folder_spec(path: str, workspace: Path, is_folder: bool) -> str:
    named = locate(path, workspace)[0]
    root = os.path.normpath(workspace)
    if named != root and not named.startswith(root.rstrip("/") + "/"):
        folder = named if is_folder else os.path.dirname(named)
        return f"/{escape_path(folder)}/**" if folder != "/" else f"/{escape_path(named)}"
    relative = os.path.relpath(named, root)
    folder = relative if is_folder else os.path.dirname(relative)
    if folder in ("", "."):
        return "/**" if is_folder else f"/{escape_path(relative)}"
    return f"/{escape_path(folder)}/**"
