"""Finds the script that a hook's command runs, without a shell.

Deliberately tiny. A command is known if it is plain words that begin with a script's path, or with an interpreter and a script's path.
Shell syntax (pipes, variables, `-c`, patterns) is not known, nor are programs that depend on their folder (`make`, `npm test`,
`python -m`). Such a command may only run in a sandbox. A known command runs without a shell, so its words have no other meaning.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from swarm.core.memo import look_at
from swarm.definitions.grants import Grant
from swarm.definitions.hooks import Hook

_HERE = re.compile(r"\$(?:\{(?:CLAUDE|SWARM)_PROJECT_DIR\}|(?:CLAUDE|SWARM)_PROJECT_DIR\b)")
_PLAIN = re.compile(r"[\w@%+=:,./~^\0 \t'\"-]*")
_INTERPRETER = re.compile(r"(?:sh|bash|dash|zsh|ksh|node|ruby|perl|python(?:3(?:\.\d+)?)?)")
UNPINNED = "not pinned: it can run anything in this folder, in the sandbox"


@dataclass(frozen=True)
class HookCommand:
    """The words of a command. `argv` is empty unless all of them are known."""

    argv: tuple[str, ...] = ()
    at: int = 0
    """Index of the script in `argv`."""
    file: str = ""
    """The script's path in the workspace; empty if the script lies outside."""


def read_words(hook: Hook, workspace: Path) -> HookCommand:
    """Return the words of a hook's command in a workspace; reads no file."""
    if hook.args is not None:
        words = [hook.command, *hook.args]
    else:
        text = _HERE.sub("\0", hook.command)
        try:
            words = shlex.split(text) if _PLAIN.fullmatch(text) else []
        except ValueError:
            words = []
    words = [os.path.expanduser(word.replace("\0", str(workspace))) for word in words]
    at = 1 if words and is_interpreter(words[0]) else 0
    if len(words) <= at or words[at].startswith("-") or (not at and "/" not in words[0]):
        return HookCommand()
    path = os.path.normpath(os.path.join(workspace, words[at]))
    file = os.path.relpath(path, workspace)
    inside = file != "." and not file.startswith("../")
    return HookCommand((*words[:at], path, *words[at + 1 :]), at, file if inside else "")


def is_interpreter(word: str) -> bool:
    """Report whether the word names an interpreter, a program that runs the file in its first argument."""
    return _INTERPRETER.fullmatch(word.rpartition("/")[2]) is not None


def hash_file(path: Path) -> str:
    """Return the SHA-256 of the whole file; empty if it cannot be read."""
    look_at(path)
    try:
        if not path.is_file():  # reading a pipe would block
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def pin(hook: Hook, workspace: Path) -> dict[str, str]:
    """Return the workspace file that a command runs, with its digest; empty if it names no existing file."""
    file = read_words(hook, workspace).file if hook.kind == "command" else ""
    digest = hash_file(workspace / file) if file else ""
    return {file: digest} if digest else {}


def grant_of(hook: Hook, workspace: Path | None) -> Grant:
    """Return the grant that a repository's hook needs: its entry and the current content of its script."""
    if hook.kind != "command" or workspace is None:
        return hook.grant()
    pinned = pin(hook, workspace)
    if pinned:
        return hook.grant(f", with {next(iter(pinned))} as it is now", pinned)
    known = read_words(hook, workspace)
    return hook.grant() if known.argv and not known.file else hook.grant(f" ({UNPINNED})")
