"""Commands that outlive the tool call that started them, as records on their host.

A background command belongs to its agent, not to the process that happened to run the agent then. So it is noted in
`<scratch>/shells/<id>.json`, its output and its end beside it, and the runtime calls `kill_shells` when the agent ends
and `kill_orphans` to sweep up after a host's crash. Guarantee: neither ever signals a process that is not the
recorded one or one of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from swarm.agent.history import History
from swarm.core.errors import ToolError
from swarm.tools import Confine, ToolContext
from swarm.tools.processes import (
    Report,
    has_marker,
    hold_planted,
    kill_marked,
    kill_tree,
    new_shell_id,
    scratch_folder,
    shell_argv,
    start_command,
    watch_words,
)
from swarm.workspace.private import private_folders

MAX_SHELLS = 16
"""Background commands that one agent may have running at once."""
_FOLDER = "shells"
_START_TOLERANCE_SECONDS = 2.0
"""A host's clock is set now and then, and a process's start time is computed from it."""

ShellState = Literal["running", "ended", "lost"]


class ShellRecord(BaseModel):
    """Record of one background command."""

    model_config = ConfigDict(frozen=True)

    id: str
    pid: int
    """Process id of the supervisor; 0 while it starts."""
    started: float
    """When the supervisor started (Unix seconds): distinguishes it from a later process with the same id."""
    command: str
    watched: list[str] = []
    """The supervisor's final check, for the case that the supervisor was killed."""


def start_shell(ctx: ToolContext, command: str, confine: Confine | None) -> ShellRecord:
    """Start `command` in the background and note it. Raises `ToolError` when too many run already."""
    scratch = scratch_folder(ctx)
    folder = scratch / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    if sum(shell_state(scratch, shell)[0] == "running" for shell in list_shells(scratch)) >= MAX_SHELLS:
        raise ToolError(f"{MAX_SHELLS} background shells run already; end one with KillShell first")
    # Noted before it starts, without a number: if this process dies in between, the sweep finds it by its marker.
    argv = shell_argv(ctx, confine)
    shell = ShellRecord(id=new_shell_id(), pid=0, started=time.time(), command=command, watched=watch_words(argv))
    _note(folder, shell)
    pid = start_command(ctx, command, argv, shell.id, output_path(scratch, shell.id), _report_path(scratch, shell.id))
    with contextlib.suppress(psutil.Error):
        shell = shell.model_copy(update={"pid": pid, "started": psutil.Process(pid).create_time()})
    _note(folder, shell)
    return shell


def find_shell(scratch: Path, shell_id: str) -> ShellRecord:
    """Return the record of one shell. Raises `ToolError`, which names the existing shells."""
    for shell in list_shells(scratch):
        if shell.id == shell_id:
            return shell
    known = ", ".join(shell.id for shell in list_shells(scratch)) or "none"
    raise ToolError(f"no background shell {shell_id!r} on this host (it may have run on another); there are: {known}")


def list_shells(scratch: Path) -> list[ShellRecord]:
    """All background commands noted under `scratch`, running or ended, oldest first."""
    found: list[ShellRecord] = []
    for path in (scratch / _FOLDER).glob("*.json"):
        with contextlib.suppress(OSError, ValidationError, json.JSONDecodeError):
            found.append(ShellRecord.model_validate_json(path.read_bytes()))
    return sorted(found, key=lambda shell: shell.started)


def shell_state(scratch: Path, shell: ShellRecord) -> tuple[ShellState, Report | None]:
    """Whether the shell runs, has ended (and how), or was killed together with its supervisor."""
    report = _report(scratch, shell)
    if report is not None:
        return "ended", report
    if _is_alive(shell):
        return "running", None
    # It may have reported and ended between the two looks.
    report = _report(scratch, shell)
    return ("ended", report) if report is not None else ("lost", None)


def restate_shells(ctx: ToolContext, history: History) -> str:
    """List the background commands that it started here, with their states."""
    if ctx.scratch is None or ctx.scratch not in private_folders(ctx.scratch.parent):
        return ""
    shells = [
        f"{shell.id}: {shell_state(ctx.scratch, shell)[0]}: {shell.command}" for shell in list_shells(ctx.scratch)
    ]
    return "\n".join(shells[-MAX_SHELLS:])


def output_path(scratch: Path, shell_id: str) -> Path:
    """Return the file that receives a background command's output."""
    return scratch / _FOLDER / f"{shell_id}.out"


def take_output(scratch: Path, shell_id: str, call_id: str) -> bytes:
    """Return the command's output since the last call. A repeated call gets the same bytes."""
    cursor = scratch / _FOLDER / f"{shell_id}.taken"
    taken: dict[str, Any] = {"call": "", "start": 0, "end": 0}
    with contextlib.suppress(OSError, ValueError):
        taken = json.loads(cursor.read_text())
    start = taken["start"] if taken["call"] == call_id else taken["end"]
    try:
        with open(output_path(scratch, shell_id), "rb") as file:
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return b""
    temporary = cursor.with_suffix(f".{re.sub(r'[^A-Za-z0-9_-]', '', call_id)}.new")
    temporary.write_text(json.dumps({"call": call_id, "start": start, "end": start + len(data)}))
    os.replace(temporary, cursor)
    return data


def kill_shell(scratch: Path, shell: ShellRecord) -> bool:
    """Kill one background command with everything it started; False if it had ended before."""
    if _is_alive(shell):
        kill_tree(shell.pid, shell.id)
        return True
    if _report(scratch, shell) is not None:
        return False
    # The supervisor never reported: its processes may still run, and files that they planted may remain.
    killed = kill_marked(shell.id) > 0
    hold_planted(shell.watched)
    return killed


def kill_shells(scratch: Path) -> int:
    """End all background commands under `scratch` and forget them: for when their agent ends. Returns how many ran."""
    killed = sum(kill_shell(scratch, shell) for shell in list_shells(scratch))
    shutil.rmtree(scratch / _FOLDER, ignore_errors=True)
    return killed


def kill_orphans(root: Path, alive: Callable[[str], bool]) -> int:
    """Call `kill_shells` for each `<root>/<agent_id>` that is not `alive`, and remove the folder; return how many commands ran.

    Follows no link, and leaves other users' files alone.
    """
    killed = 0
    for scratch in private_folders(root):
        if not alive(scratch.name):
            killed += kill_shells(scratch)
            shutil.rmtree(scratch, ignore_errors=True)
    return killed


def _note(folder: Path, shell: ShellRecord) -> None:
    temporary = folder / f"{shell.id}.new"
    temporary.write_text(shell.model_dump_json())
    os.replace(temporary, folder / f"{shell.id}.json")


def _report_path(scratch: Path, shell_id: str) -> Path:
    return scratch / _FOLDER / f"{shell_id}.end"


def _report(scratch: Path, shell: ShellRecord) -> Report | None:
    try:
        return Report.parse(_report_path(scratch, shell.id).read_bytes())
    except OSError:
        return None


def _is_alive(shell: ShellRecord) -> bool:
    try:
        process = psutil.Process(shell.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if abs(process.create_time() - shell.started) > _START_TOLERANCE_SECONDS:
            return False
        return has_marker(process, shell.id)
    except psutil.Error:
        return False
