"""Decide where a hook runs: on the worker's host only with content that no agent can have written.

That is a script outside every folder that agents of the job write in, or, if the person trusts the workspace, one of the workspace as it
was at submission. The compared bytes are the ones that run. Interpreters are searched outside those folders. Any other hook runs in the
agent's sandbox, or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from swarm.capabilities.hooks.table import HookTable, Place
from swarm.definitions.hook_commands import HookCommand, is_interpreter, read_words
from swarm.definitions.hooks import Hook

_MAX_LINKS = 40
_UNKNOWN = "its command line is not fully known"
_SYSTEM_FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
"""Folders of programs, even if the worker's PATH omits them."""


@dataclass(frozen=True)
class Run:
    """How one hook is run."""

    place: Place
    why: str = ""
    """Why the hook does not run on the host although its owner may, or why it does not run."""
    argv: tuple[str, ...] = ()
    """The host's command line, with the program found. `at` is the script's position."""
    at: int = 0
    pinned: str = ""
    """The script's path in the workspace."""
    content: bytes = b""
    """The script's bytes, which are the ones that run."""
    variables: dict[str, str] = field(default_factory=dict)
    """Search paths of programs and libraries, without folders that agents write in."""


def place_hook(hook: Hook, table: HookTable, workspace: Path, folders: Sequence[Path] = ()) -> Run:
    """Decide how a hook runs in a workspace; agents of the job also write in `folders`."""
    wanted = table.place(hook)
    if wanted == "off":
        return Run("off", "this worker runs no hooks of users (SWARM_USER_HOOKS)")
    if wanted != "host" or hook.kind != "command":
        return Run(wanted)
    roots = [str(workspace), *map(str, folders), *([table.job.workspace] if table.job.workspace else [])]
    words = read_words(hook, workspace)
    if not words.argv:
        return Run("sandbox", _UNKNOWN)
    return _place_pinned(hook, table, words, workspace, roots) if words.file else _place_outside(words, roots)


def _place_outside(words: HookCommand, roots: list[str]) -> Run:
    script = words.argv[words.at]
    if leads_through(script, roots):
        return Run("sandbox", f"{script} lies in a folder that agents write in")
    if not words.at and os.path.dirname(script) in (*_SYSTEM_FOLDERS, *os.environ.get("PATH", "").split(os.pathsep)):
        return Run("sandbox", f"the effect of {os.path.basename(script)} is known only when it runs")
    return _with_program(words.argv[: words.at], words.argv[words.at :], roots)


def _place_pinned(hook: Hook, table: HookTable, words: HookCommand, workspace: Path, roots: list[str]) -> Run:
    digest = table.job.files.get(words.file, "") if hook.origin == "user" else ""
    if not digest:
        return Run("sandbox", f"nothing pins {words.file}")
    if not table.job.trusted:
        return Run("sandbox", f"{words.file} is not trusted")
    try:
        content = (workspace / words.file).read_bytes() if (workspace / words.file).is_file() else b""
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() != digest:
        return Run("off", f"{words.file} has changed since the job was submitted; submit again to run the new version")
    program = list(words.argv[: words.at]) or _first_line(content)
    if not program:
        return Run("sandbox", f"the first line of {words.file} does not name just an interpreter")
    run = _with_program(program, words.argv[words.at :], roots)
    return replace(run, pinned=words.file, content=content) if run.place == "host" else run


def _with_program(program: Sequence[str], rest: Sequence[str], roots: list[str]) -> Run:
    variables = {name: _outside(os.environ[name], roots) for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    found = [shutil.which(name, path=variables.get("PATH")) for name in program]
    if any(name is None or not os.path.isabs(name) or leads_through(name, roots) for name in found):
        return Run("sandbox", f"{program[0]} is not found outside the folders that agents write in")
    return Run("host", "", (*filter(None, found), *rest), len(found), variables=variables)


def _outside(folders: str, roots: Sequence[str]) -> str:
    """Remove folders that agents write in, and relative ones, from a variable that lists folders."""
    parts = folders.split(os.pathsep)
    return os.pathsep.join(part for part in parts if os.path.isabs(part) and not leads_through(part, roots))


def _first_line(content: bytes) -> list[str]:
    """The interpreter of a script by its `#!`."""
    line = content[:256].partition(b"\n")[0].decode("utf-8", "replace")
    words = line[2:].split() if line.startswith("#!") else []
    words = words[1:] if words[:1] == ["/usr/bin/env"] else words
    return words if len(words) == 1 and is_interpreter(words[0]) else []


def leads_through(path: str, roots: Sequence[str]) -> bool:
    """Whether a path, or a link on its way, lies in one of the folders."""
    real = [os.path.realpath(root).rstrip("/") for root in roots]
    todo, at, links = path.split("/")[::-1], "", 0
    while todo:
        part = todo.pop()
        if part == "..":
            at = os.path.dirname(at).rstrip("/")
        elif part not in ("", "."):
            at = f"{at}/{part}"
        if any(at == root or at.startswith(f"{root}/") for root in real):
            return True
        try:
            target = os.readlink(at) if part not in ("", ".", "..") else None
        except OSError:
            continue
        if target is not None:
            links += 1
            if links > _MAX_LINKS:
                return True
            at = "" if target.startswith("/") else os.path.dirname(at).rstrip("/")
            todo += target.split("/")[::-1]
    return False
