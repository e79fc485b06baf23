"""Calls of an agent that begins in a folder of its workspace, as calls from the workspace: the one form that is judged and carried out.

Rules stay relative to the workspace, so who begins in a folder of it gets past none of them.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from swarm.definitions.tools import ToolRow
from swarm.workspace import is_output


def from_workspace(row: ToolRow, given: dict[str, Any], cwd: str) -> dict[str, Any]:
    """The input of a call with its path, or its command, relative to the workspace instead of to `cwd`, a folder of it."""
    subject = given.get(row.subject)
    if not cwd or not (subject is None or isinstance(subject, str)):
        return given
    if row.matching == "command" and subject:
        return {**given, row.subject: f"cd {shlex.quote(cwd)} || exit 1\n{subject}"}
    if row.matching not in ("edited", "read") or (subject is None and not row.inner and row.subject != "path"):
        return given
    if subject and (is_output(subject) or os.path.isabs(subject)):
        return given
    return {**given, row.subject: os.path.join(cwd, subject) if subject else cwd}
