"""Reads a workspace's setup: the command that makes what git ignores (installed packages, a virtual environment) in a new checkout.

The first of these files that has one is taken: `.swarm/setup`, a script; `script` of `[setup]` in Codex's
`.codex/environments/environment.toml`; `install` in Cursor's `.cursor/environment.json`; `postCreateCommand` in a dev container's
`.devcontainer/devcontainer.json`. Its text is read where a job is submitted and travels with it, so no later change of the file counts.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import parse_jsonc
from swarm.definitions.sources import Problem, Unusable, locate, read_text, show

MAX_COMMAND_BYTES = 16 * 1024
"""It is in the record of each agent of the job."""
_REMEDY = "Write a command there."
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")


class Setup(BaseModel):
    """What is run once in a checkout."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    """A shell's text, or a script for the program that its first line names (`#!`)."""
    source: str
    """The file, relative to the workspace."""

    @property
    def program(self) -> list[str]:
        """What runs a script that says so in its first line (`#!`), as descriptor 20 if it is no shell; empty: a shell, as any command."""
        words = self.command.partition("\n")[0].removeprefix("#!").split()
        if not self.command.startswith("#!") or not words:
            return []
        # So that `$0` is the file, as a script expects that looks for its folder.
        is_shell = any(PurePath(word).name in _SHELLS for word in words)
        return [*words, "-c", self.command, self.source] if is_shell else [*words, "/dev/fd/20"]

    @property
    def grant(self) -> Grant:
        """What has to be trusted for it."""
        return Grant(
            text=f"a new checkout is set up with: {self.command.strip()}", source=self.source, content=self.command
        )


def read_setup(workspace: Path) -> tuple[Setup | None, list[Problem]]:
    """The setup of a workspace, and what is wrong with the file that should have it; never raises."""
    for source, read in _READERS.items():
        path = workspace / source
        if not os.path.lexists(path):
            continue
        try:
            # A link must not carry another file of the person's away.
            command = read(read_text(locate(source, workspace, workspace))).strip()
            if _measure(command) > MAX_COMMAND_BYTES:
                raise Unusable(
                    f"the setup has more than {MAX_COMMAND_BYTES // 1024} KiB", "Put it into a file, and call that."
                )
        except Unusable as error:
            return None, [error.as_problem(path)]
        if command:
            return Setup(command=command, source=source), []
    return None, []


def _measure(command: str) -> int:
    if "\0" in command:
        raise Unusable("the setup has a null character in it", "Take it out.")
    try:
        return len(command.encode())
    except UnicodeEncodeError as error:
        raise Unusable("the setup is not text", "Write a command or a script.") from error


def _read_codex(text: str) -> str:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unusable(f"it is not valid TOML: {error}", "Correct it there.") from error
    except (RecursionError, ValueError) as error:
        raise Unusable("it is nested too deeply, or a number in it is too long", "Simplify it.") from error
    setup = table.get("setup")
    return _read_command(setup.get("script") if isinstance(setup, Mapping) else None, "setup.script")


def _read_key(key: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = parse_jsonc(text)
        return _read_command(found.get(key) if isinstance(found, Mapping) else None, key)

    return read


def _read_command(value: Any, key: str) -> str:
    """A line for a shell, a program with its arguments, or several of them by name: one after the other, until one fails."""
    match value:
        case None:
            return ""
        case str():
            return value
        case [*words] if all(isinstance(word, str) for word in words):
            return shlex.join(words)
        case {**named} if all(isinstance(one, str | list) for one in named.values()):
            return " &&\n".join(f"(\n{_read_command(one, key)}\n)" for one in named.values() if one)
    raise Unusable(f"`{key}` is {show(value)}, and no command", _REMEDY)


_READERS: dict[str, Callable[[str], str]] = {
    ".swarm/setup": str,
    ".codex/environments/environment.toml": _read_codex,
    ".cursor/environment.json": _read_key("install"),
    ".devcontainer/devcontainer.json": _read_key("postCreateCommand"),
}
