"""The sandbox made of Linux namespaces by bubblewrap (`bwrap`): the better one, where user namespaces are allowed.

The command sees a file system that is put together for it from folders of the host, its scratch folder as /tmp,
only its own processes, and a network of its own, without a way out unless `network` gives it one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swarm.permissions.sandbox.backend import PROMISES, Backend, CannotConfine, Promise
from swarm.permissions.sandbox.host import (
    CONFIGURATION,
    PROCESSORS,
    SYSTEM_FOLDERS,
    hidden_paths,
    private_configuration,
    python_folders,
)
from swarm.permissions.sandbox.network import NAME_SERVERS, attach_argv, descriptor_words, name_server_place
from swarm.permissions.sandbox.policy import SandboxPolicy
from swarm.permissions.sandbox.seccomp import make_filter
from swarm.permissions.sandbox.words import common_words, enter_argv

PROTECTED = (".claude", ".codex", ".opencode", ".swarm")
"""Folders in a workspace whose content decides what agents may do; where one is missing, an empty one is made."""
_FILES = ("config", "config.worktree")
_OWN_LIMIT = 'ulimit -u "$0" 2>/dev/null || ulimit -p "$0" || exit 126; exec "$@"'
"""Inside, because there the kernel counts the processes of this sandbox alone. Some shells call the option -p."""
_COUNTS_PER_NAMESPACE = (5, 14)
_FILTER_DESCRIPTOR = "9"

_Kind = Literal["read", "write", "hide", "guard"]
_ORDER: dict[_Kind, int] = {"read": 0, "write": 1, "guard": 2, "hide": 3}


@dataclass(frozen=True)
class _Mount:
    path: Path
    kind: _Kind
    source: Path | None = None

    def words(self) -> list[str]:
        place = str(self.path)
        if self.kind == "read":
            return ["--ro-bind-try", str(self.source or self.path), place]
        if self.kind == "write":
            return ["--bind", str(self.source or self.path), place]
        if self.kind == "guard" and self.path.exists():
            return ["--ro-bind", place, place]
        if self.path.is_dir() or not (self.path.exists() or self.path.name in _FILES):
            return ["--tmpfs", place, "--remount-ro", place]
        return ["--ro-bind", os.devnull, place]


def wrap(backend: Backend, policy: SandboxPolicy, argv: list[str]) -> list[str]:
    """The command that runs `argv` under the policy. Raises `CannotConfine` if the workspace cannot be guarded."""
    assert backend.program is not None
    bwrap = [backend.program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    bwrap += ["--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"]
    # Not even one that may use the network shares the host's: `network` attaches its own.
    bwrap += ["--unshare-net", *(descriptor_words() if policy.network else [])]
    for folder in SYSTEM_FOLDERS:
        if folder.is_symlink():
            bwrap += ["--symlink", os.readlink(folder), str(folder)]
        elif folder.is_dir():
            bwrap += ["--ro-bind", str(folder), str(folder)]
    bwrap += ["--ro-bind-try", str(PROCESSORS), str(PROCESSORS), "--proc", "/proc", "--dev", "/dev"]
    for mount in _mounts(policy):
        bwrap += mount.words()
    # The kernel's settings belong to root, who needs no capability to write them, even in a namespace.
    bwrap += [word for place in ("/proc", "/dev", "/") for word in ("--remount-ro", place)]
    bwrap += ["--chdir", str(policy.workspace)]
    words = [*common_words(policy, scratch="/tmp"), "outer=1"]
    # A main git folder never has this file; with it git would take settings and hooks from where it says. What does
    # not exist cannot be covered by a mount, so the supervisor removes it when the command has ended.
    words += [f"absent={path}" for path in _never_there(policy)]
    code = make_filter("namespaces", network=policy.network, read_only=policy.read_only, abi=backend.abi)
    if code:
        words += [f"filter={code.hex()}", f"pass={_FILTER_DESCRIPTOR}"]
        bwrap += ["--seccomp", _FILTER_DESCRIPTOR]
    if policy.network and backend.abi >= 6:
        words.append("scope=1")
    if _kernel() >= _COUNTS_PER_NAMESPACE:
        argv = ["/bin/sh", "-c", _OWN_LIMIT, str(policy.max_processes), *argv]
    else:
        words.append(f"processes={policy.max_processes}")
    bwrap += ["--", *argv]
    return enter_argv(words, attach_argv(policy, bwrap) if policy.network else bwrap)


def promises_of(*, root: bool) -> frozenset[Promise]:
    """All of them; only root's processes are never counted by the kernel."""
    return frozenset(PROMISES) - ({"process count"} if root else set())


def _mounts(policy: SandboxPolicy) -> list[_Mount]:
    """Folders before what lies in them; for the same place the later kind wins."""
    mounts = [_Mount(CONFIGURATION, "read")]
    mounts += [_Mount(path, "hide") for path in private_configuration()]
    # Much is written to /tmp by name, and shared memory and semaphores are files too.
    mounts += [_Mount(Path(place), "write", policy.scratch) for place in ("/tmp", "/var/tmp", "/dev/shm")]
    readable = [*python_folders(), *(path.resolve() for path in policy.readable)]
    mounts += [_Mount(path, "read") for path in readable]
    if policy.network and (place := name_server_place()) is not None:
        mounts.append(_Mount(place, "read", NAME_SERVERS))
    given = [policy.workspace, *policy.writable]
    mounts += [_Mount(path, "read" if policy.read_only else "write") for path in given]
    if not policy.read_only:
        mounts += [mount for folder in given for mount in _guards(folder)]
        mounts += [
            _Mount(path, "guard") for path in python_folders() if any(path.is_relative_to(root) for root in given)
        ]
    mounts += [_Mount(path, "hide") for path in hidden_paths(policy)]
    chosen: dict[Path, _Mount] = {}
    for mount in sorted(mounts, key=lambda mount: _ORDER[mount.kind]):
        chosen[mount.path] = mount
    return sorted(chosen.values(), key=lambda mount: len(mount.path.parts))


def _guards(folder: Path) -> list[_Mount]:
    """What a writer may not change: it would act later, outside of the sandbox."""
    found = [_Mount(folder / name, "guard") for name in PROTECTED] if not _is_git_folder(folder) else []
    if _is_git_folder(folder):
        found += _git_guards(folder)
    git = folder / ".git"
    if git.is_file():
        found.append(_Mount(git, "guard"))
    elif git.is_dir():
        # A mount of its own: it could be renamed otherwise, and another put in its place.
        found += [_Mount(git, "write"), *_git_guards(git)]
    for mount in found:
        if mount.path.is_symlink():
            raise CannotConfine(
                f"{mount.path} is a symbolic link, and what may not be changed cannot be kept from being replaced "
                "that way. Put the folder itself there."
            )
    return found


def _git_guards(git: Path) -> list[_Mount]:
    found = [_Mount(each / name, "guard") for each in _repositories(git) for name in ("hooks", "config")]
    linked = [
        path for pattern in ("config.worktree", "commondir", "gitdir") for path in git.glob(f"worktrees/*/{pattern}")
    ]
    return found + [_Mount(path, "guard") for path in (*linked, git / "config.worktree") if path.exists()]


def _repositories(git: Path) -> list[Path]:
    """A git folder and those of its submodules."""
    inner = [head.parent for pattern in ("*", "*/*", "*/*/*") for head in git.glob(f"modules/{pattern}/HEAD")]
    return [git, *filter(_is_git_folder, inner)]


def _never_there(policy: SandboxPolicy) -> list[Path]:
    if policy.read_only:
        return []
    folders = [path for given in (policy.workspace, *policy.writable) for path in (given, given / ".git")]
    gits = [each for path in folders if _is_git_folder(path) for each in _repositories(path)]
    return [git / "commondir" for git in gits if not (git / "commondir").exists()]


def _is_git_folder(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)
