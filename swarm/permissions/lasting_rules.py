"""Makes the rule of a lasting approval, whose text states everything that it allows.

For a command, the rule allows exactly this command. For a few subcommands it also allows other plain words, with known options that
start no program and name no file to write, on the named remote, in the workspace.
"""

from __future__ import annotations

import os
import re
from glob import escape
from pathlib import Path
from typing import Any

from swarm.definitions.model import DEFAULT_TYPE
from swarm.definitions.tools import row_of
from swarm.permissions.path_rules import escape_path, locate
from swarm.permissions.rules import Rule, host_of
from swarm.permissions.shell.kinds import kind_of
from swarm.permissions.shell.parse import parse_command
from swarm.permissions.shell.patterns import escape_pattern

_APPROVAL = "an approval for good"


def always_rule(tool: str, given: dict[str, Any], *, workspace: Path, source: str = _APPROVAL) -> Rule:
    """Return a narrow rule that allows this call and calls of its kind; `Rule.promise` explains the rule."""
    row = row_of(tool)
    subject = given.get(row.subject)
    spec: str | None = None
    match row.matching:
        case "command":
            spec = _command_spec(str(subject or ""))
        case "edited" | "read":
            spec = _folder_spec(str(subject), workspace, row.subject == "path") if subject else None
        case "domain":
            # No host in `.invalid` exists, so an unreadable URL is approved only once.
            spec = f"domain:{host_of(subject) or 'unreadable.invalid'}"
        case "type":
            spec = subject if isinstance(subject, str) and re.fullmatch(r"\w[\w.-]*", subject) else DEFAULT_TYPE
        case "value" if subject is not None:
            spec = escape(str(subject).lower() if isinstance(subject, bool) else str(subject))
    return Rule(action="allow", tool=tool, spec=spec, source=source, plain=row.matching == "command")


def _command_spec(command: str) -> str:
    parsed = parse_command(command)
    if parsed.doubt is None and len(parsed.parts) == 1 and not parsed.writes and not parsed.parts[0].assigned:
        kind = kind_of(parsed.parts[0].words)
        if kind:
            return f"{kind}:*"
    return escape_pattern(command.strip())


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
