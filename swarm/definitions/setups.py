"""Reads a workspace's setup: the command that creates ignored files (packages, a virtual environment) in a new checkout.

The first setup found in this order is used: `.swarm/setup`, a script; `script` of `[setup]` in Codex's
`.codex/environments/environment.toml`; `install` in Cursor's `.cursor/environment.json`; `postCreateCommand` in a dev container's
`.devcontainer/devcontainer.json`. Its text is read where a job is submitted and travels with it, so later changes of the file have no
effect.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarm.core.memo import look_at
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import parse_jsonc
from swarm.definitions.sources import Problem, Unusable, locate, read_text, show

MAX_COMMAND_BYTES = 16 * 1024
"""Maximum size of a setup, because the record of each agent contains it."""
_REMEDY = "Write a command there."
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")


class Setup(BaseModel):
    """A command that runs once in each checkout."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    """Shell text, or a script whose first line names its program (`#!`)."""
    source: str
    """The file, relative to the workspace."""

    @property
    def program(self) -> list[str]:
        """The program in a script's first line (`#!`), with its arguments; empty for plain shell text.

        A shell gets the script by `-c`, any other program as descriptor 20.
        """
        words = self.command.partition("\n")[0].removeprefix("#!").split()
        if not self.command.startswith("#!") or not words:
            return []
        # `$0` is the file, because a script may find its folder by it.
        is_shell = any(PurePath(word).name in _SHELLS for word in words)
        return [*words, "-c", self.command, self.source] if is_shell else [*words, "/dev/fd/20"]

    @property
    def grant(self) -> Grant:
        """The grant that this setup needs."""
        return Grant(
            text=f"a new checkout is set up with: {self.command.strip()}", source=self.source, content=self.command
        )


def read_setup(workspace: Path) -> tuple[Setup | None, list[Problem]]:
    """Return the setup of a workspace, and problems of its file; never raises."""
    for source, read in _READERS.items():
        path = workspace / source
        look_at(path)
        if not os.path.lexists(path):
            continue
        try:
            # A link must not expose other files of the person.
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
        raise Unusable("the setup contains a null character", "Remove it.")
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
    """Read shell text, a program with arguments, or several of these by name, which run in order until one fails."""
    match value:
        case None:
            return ""
        case str():
            return value
        case [*words] if all(isinstance(word, str) for word in words):
            return shlex.join(words)
        case {**named} if all(isinstance(one, str | list) for one in named.values()):
            return " &&\n".join(f"(\n{_read_command(one, key)}\n)" for one in named.values() if one)
    raise Unusable(f"`{key}` is {show(value)}, not a command", _REMEDY)


_READERS: dict[str, Callable[[str], str]] = {
    ".swarm/setup": str,
    ".codex/environments/environment.toml": _read_codex,
    ".cursor/environment.json": _read_key("install"),
    ".devcontainer/devcontainer.json": _read_key("postCreateCommand"),
}
