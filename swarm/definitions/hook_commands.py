"""What a hook's command runs, as far as its words say it without a shell.

Deliberately tiny. A command is known if it is plain words, and the first is a script that is named by its path, or an interpreter that is
followed by one. Whatever else a shell makes of a text (pipes, variables, `-c`, patterns), and what a program does by the folder that it is
started in (`make`, `npm test`, `python -m`), is not known, and then only a sandbox may run it. What is known is run without a shell, so a
word can mean nothing else than what was read here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from swarm.definitions.grants import Grant
from swarm.definitions.hooks import Hook

_HERE = re.compile(r"\$(?:\{(?:CLAUDE|SWARM)_PROJECT_DIR\}|(?:CLAUDE|SWARM)_PROJECT_DIR\b)")
_PLAIN = re.compile(r"[\w@%+=:,./~^\0 \t'\"-]*")
_INTERPRETER = re.compile(r"(?:sh|bash|dash|zsh|ksh|node|ruby|perl|python(?:3(?:\.\d+)?)?)")
UNPINNED = "not pinned: it can run anything in this folder, in the sandbox"


@dataclass(frozen=True)
class HookCommand:
    """The words of a command. `argv` is empty where they are not all known."""

    argv: tuple[str, ...] = ()
    at: int = 0
    """Which of them is the script."""
    file: str = ""
    """The script's path in the workspace; empty: it lies outside."""


def read_words(hook: Hook, workspace: Path) -> HookCommand:
    """The words of a hook's command in a workspace; looks at no file."""
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
    """Whether it is a program that runs the file that its first word names."""
    return _INTERPRETER.fullmatch(word.rpartition("/")[2]) is not None


def hash_file(path: Path) -> str:
    """The SHA-256 of the whole file; empty if it cannot be read."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def pin(hook: Hook, workspace: Path) -> dict[str, str]:
    """The file of the workspace that a command runs, with its digest; none if it names none that is there."""
    file = read_words(hook, workspace).file if hook.kind == "command" else ""
    digest = hash_file(workspace / file) if file else ""
    return {file: digest} if digest else {}


def grant_of(hook: Hook, workspace: Path | None) -> Grant:
    """What has to be trusted for a hook of a repository: its entry, and the script that it runs, as it is."""
    if hook.kind != "command" or workspace is None:
        return hook.grant()
    pinned = pin(hook, workspace)
    if pinned:
        return hook.grant(f", with {next(iter(pinned))} as it is now", pinned)
    known = read_words(hook, workspace)
    return hook.grant() if known.argv and not known.file else hook.grant(f" ({UNPINNED})")
