"""What one agent's processes may do, as a value; every backend makes it true in its own way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GIBIBYTE = 1024**3


@dataclass(frozen=True)
class SandboxPolicy:
    """Everything that is not named here is out of reach. Paths are absolute and resolved."""

    workspace: Path
    scratch: Path
    """The private folder of the agent's processes, their TMPDIR and HOME. It must exist, and nothing that the runtime
    itself opens may lie in it: a process could put a link there."""
    read_only: bool
    """The workspace may be read and nothing but `scratch` written."""
    network: bool = False
    """Its processes may use the network: public addresses, never this host or what is link-local."""
    private_network: bool = False
    """With `network`: private addresses, too."""
    unreachable: tuple[str, ...] = ()
    """IPv4 addresses that stay out of reach with `network`, those of Redis for example."""
    memory_bytes: int = 4 * GIBIBYTE
    """Private memory of each process; the kernel counts it per process, not in all."""
    max_processes: int = 512
    file_size_bytes: int = 2 * GIBIBYTE
    """Of each file."""
    cpu_seconds: int | None = None
    """Of each process."""
    readable: tuple[Path, ...] = ()
    """Further folders and files, toolchains for example."""
    writable: tuple[Path, ...] = ()
    """Further folders, for example the common git folder of a worktree; only readable for read-only agents."""
    kept: Path | None = None
    """A private folder that may be read as HOME and not written: what is in `scratch` is then thrown away afterwards."""
    hooks: tuple[Path, ...] = ()
    """Files that people's hooks run. Where they lie in what may be written, they are kept as they are."""
    hidden: tuple[Path, ...] = ()
    """Out of reach even where a folder above is not: the runtime's own files, credentials in a home that is a workspace."""


def toolchain_folders(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Where the tools on the PATH are installed, if not in the system's folders: what a build needs to read.

    Never the home folder or one above it, however the PATH is set.
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
