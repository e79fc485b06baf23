"""Safe calls of git: in a repository prepared by others, git runs no program but itself.

An agent, or a cloned repository's author, can name programs in its settings: hooks, monitors, filters, helpers.
Every call of the project goes through `run_git`, which disables them; it never enters a submodule or uses the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from swarm.core.errors import ConfigurationError

GIT_SECONDS = 60.0
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "core.attributesFile": os.devnull,
    "core.alternateRefsCommand": "true",
    "credential.helper": "",
    "protocol.allow": "never",
    "protocol.file.allow": "never",
    "protocol.ext.allow": "never",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "submodule.recurse": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "log.showSignature": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
}
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "LC_ALL": "C",
}
_PROGRAMS = {
    "clean": "",
    "smudge": "",
    "process": "",
    "required": "false",
    "driver": "false",
    "command": "",
    "textconv": "",
}
"""Settings of filters and of merge and diff drivers, whose names a repository chooses → their safe values."""
_LOOKING = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_OPTIONS = {"diff": _LOOKING, "log": _LOOKING, "show": _LOOKING, "status": ("--ignore-submodules=all",)}
"""Options of commands whose programs and submodules' settings cannot be disabled by settings alone."""


def run_git(
    folder: Path,
    arguments: Sequence[str],
    *,
    settings: Mapping[str, str] | None = None,
    timeout_seconds: float = GIT_SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Run a git command in `folder` and return its exit code and output. `settings` are further ones, as with `-c`.

    Raises `ConfigurationError` if git is missing or does not end in time.
    """
    program = shutil.which("git")
    if program is None:
        raise ConfigurationError("git is not on the PATH; install it with the system's package manager")
    given = {**_SETTINGS, **(settings or {})}
    listed = _call(program, folder, {**_SETTINGS}, ["config", "--list", "--name-only", "-z"], timeout_seconds)
    for name in listed.stdout.decode("utf-8", "surrogateescape").split("\0"):
        kind, last = name.partition(".")[0], name.rpartition(".")[2]
        if kind in ("filter", "merge", "diff") and name.count(".") > 1 and last in _PROGRAMS:
            given[name] = _PROGRAMS[last]
    command, *rest = arguments
    return _call(program, folder, given, [command, *_OPTIONS.get(command, ()), *rest], timeout_seconds)


def settings_in_effect(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return names and values of the user's and the repository's git settings in a folder.

    Read again when one of the usual files has changed. Empty if git is missing or does not answer.
    """
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = (os.path.expanduser("~/.gitconfig"), f"{config}/git/config", "/etc/gitconfig", f"{folder}/.git/config")
    return _ask_settings(folder, tuple(map(_stamp_of, files)))


def _stamp_of(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino


@lru_cache(maxsize=64)
def _ask_settings(folder: Path, _stamps: tuple[tuple[int, int], ...]) -> tuple[tuple[str, str], ...]:
    kept = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    given = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in kept}
    argv = [shutil.which("git") or "git", "config", "--list", "--includes", "-z"]
    try:
        ran = subprocess.run(
            argv, cwd=folder, env=given, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    entries = ran.stdout.decode("utf-8", "surrogateescape").split("\0")
    return tuple((name, value) for name, _, value in (entry.partition("\n") for entry in entries) if name)


def config_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables that give git these settings. With `-c` a name ends at its first `=`, and a repository may choose one that holds it."""
    pairs = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        pairs |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return pairs


def _call(
    program: str, folder: Path, settings: Mapping[str, str], arguments: Sequence[str], timeout_seconds: float
) -> subprocess.CompletedProcess[bytes]:
    # A caller's GIT_DIR would point at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SSH_ASKPASS"))}
    try:
        return subprocess.run(
            [program, "--no-pager", *arguments],
            cwd=folder,
            env={**environment, **_ENVIRONMENT, **config_variables(settings)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"git {arguments[0]} in {folder} could not be run: {error}") from error
