"""The sandbox policy of one agent's processes, as a value that every backend enforces in its own way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GIBIBYTE = 1024**3


@dataclass(frozen=True)
class SandboxPolicy:
    """The policy; everything that it does not name is out of reach. Paths are absolute and resolved."""

    workspace: Path
    scratch: Path
    """The private folder of the agent's processes, their TMPDIR and HOME. It must exist. The runtime must not open files
    in it, because a process could put a link there."""
    read_only: bool
    """Only `scratch` may be written; the workspace may be read."""
    network: bool = False
    """The processes may use the network: public addresses, never this host or link-local addresses."""
    private_network: bool = False
    """With `network`: private addresses are allowed, too."""
    unreachable: tuple[str, ...] = ()
    """IPv4 addresses that stay out of reach with `network`, for example those of Redis."""
    memory_bytes: int = 4 * GIBIBYTE
    """Private memory of each process; the kernel has no limit for all together."""
    max_processes: int = 512
    file_size_bytes: int = 2 * GIBIBYTE
    """Maximum size of each file."""
    cpu_seconds: int | None = None
    """CPU time limit of each process; None: no limit."""
    readable: tuple[Path, ...] = ()
    """Further readable folders and files, for example toolchains."""
    writable: tuple[Path, ...] = ()
    """Further writable folders, for example the common git folder of a worktree; only readable for read-only agents."""
    kept: Path | None = None
    """A private folder that is a read-only HOME; the content of `scratch` is then discarded afterwards."""
    hooks: tuple[Path, ...] = ()
    """Files that people's hooks run. In writable folders they are protected from changes."""
    hidden: tuple[Path, ...] = ()
    """Paths that are out of reach even in an allowed folder: the runtime's files, credentials in a home that is a workspace."""


def toolchain_folders(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the folders of tools on the PATH outside the system's folders, which a build must read.

    Never the home folder or one above it, whatever the PATH is.
    """
    found: dict[Path, None] = {}
    roots = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "JAVA_HOME", "GOROOT", "RUSTUP_HOME")
    named = [environment[name] for name in roots if environment.get(name)]
    for text in [*named, *environment.get("PATH", "").split(os.pathsep)]:
        if not os.path.isabs(text) or not os.path.isdir(text):
            continue
        folder = Path(text).resolve()
        if folder.name == "bin" and (folder.parent / "lib").is_dir() and folder.parent != home / ".local":
            folder = folder.parent
        if folder == folder.parent or folder.is_relative_to("/usr") or home.resolve().is_relative_to(folder):
            continue
        found[folder] = None
    return tuple(found)
