"""The sandbox of Linux namespaces by bubblewrap (`bwrap`), the better backend if user namespaces are allowed.

The command sees a file system of selected host folders, its scratch folder as /tmp, and only its own processes.
Its network is separate and has no way out unless `network` attaches one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swarm.permissions.sandbox.arguments import common_words, enter_argv, watch_words
from swarm.permissions.sandbox.backend import PROMISES, Backend, CannotConfine, Promise
from swarm.permissions.sandbox.host import (
    CONFIGURATION,
    PROCESSORS,
    SYSTEM_FOLDERS,
    hidden_paths,
    home_settings,
    own_folders,
    private_configuration,
    python_folders,
    settings_of_people,
)
from swarm.permissions.sandbox.network import NAME_SERVERS, attach_argv, descriptor_words, name_server_place
from swarm.permissions.sandbox.obeyed import Obeyed, look
from swarm.permissions.sandbox.policy import SandboxPolicy
from swarm.permissions.sandbox.seccomp import make_filter

PROTECTED = (".claude", ".codex", ".opencode", ".swarm")
"""Folders in a workspace that decide what agents may do; a missing one is replaced by an empty one."""
_SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
"""Places of the private folder; the first is also the home."""
_FILES = ("config", "config.worktree")
_MAX_GUARDED = 150
"""Maximum number of protective mounts, for git folders and for other files, nearest to the root first. The supervisor checks all."""
_OWN_LIMIT = 'ulimit -u "$0" 2>/dev/null || ulimit -p "$0" || exit 126; exec "$@"'
"""Set inside the sandbox, where the kernel counts only its own processes. Some shells name the option -p."""
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
        if self.kind == "guard" and self.path.name == "commondir":
            return ["--ro-bind-try", place, place]  # the supervisor creates a missing one
        if self.kind == "guard" and self.path.exists():
            return ["--ro-bind", place, place]
        if self.path.is_dir() or not (self.path.exists() or self.path.name in _FILES):
            return ["--tmpfs", place, "--remount-ro", place]
        return ["--ro-bind", os.devnull, place]


def wrap(backend: Backend, policy: SandboxPolicy, argv: list[str]) -> list[str]:
    """Return the command that runs `argv` under the policy. Raises `CannotConfine` if the workspace cannot be guarded."""
    assert backend.program is not None
    bwrap = [backend.program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    bwrap += ["--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"]
    # Never the host's network: `network` attaches a separate one.
    bwrap += ["--unshare-net", *(descriptor_words() if policy.network else [])]
    bwrap += [*_system_words(), "--proc", "/proc", "--dev", "/dev"]
    given = () if policy.read_only else (policy.workspace, *policy.writable)
    own = settings_of_people(policy) if given else ()
    looked = {root: look(str(root), own) for root in given}
    for mount in _mounts(policy, looked):
        bwrap += mount.words()
    # The kernel's settings belong to root, who can write them without a capability, even in a namespace.
    closed = ("/proc", "/dev", "/", *([_SCRATCH[0]] if policy.kept is not None else []))
    bwrap += [word for place in closed for word in ("--remount-ro", place)]
    bwrap += ["--chdir", str(policy.workspace)]
    scratch = _SCRATCH[policy.kept is not None]
    words = [*common_words(policy, scratch=scratch, home=_SCRATCH[0]), "outer=1", *watch_words(looked, own)]
    code = make_filter(
        "namespaces", network=policy.network, read_only=policy.read_only, abi=backend.abi, unix=policy.kept is None
    )
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


def _system_words() -> Iterator[str]:
    for folder in SYSTEM_FOLDERS:
        if folder.is_symlink():
            yield from ("--symlink", os.readlink(folder), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    yield from ("--ro-bind-try", str(PROCESSORS), str(PROCESSORS))


def promises_of(*, root: bool) -> frozenset[Promise]:
    """Return all promises; the kernel never counts root's processes."""
    return frozenset(PROMISES) - ({"process count"} if root else set())


def _mounts(policy: SandboxPolicy, looked: dict[Path, Obeyed]) -> list[_Mount]:
    """List the mounts, parents before children; for the same place the later kind wins."""
    mounts = [_Mount(CONFIGURATION, "read")]
    mounts += [_Mount(path, "hide") for path in private_configuration()]
    # Many programs write to /tmp by name, and shared memory and semaphores are files too.
    mounts += [_Mount(Path(place), "write", policy.scratch) for place in _SCRATCH]
    if policy.kept is not None:
        mounts.append(_Mount(Path(_SCRATCH[0]), "write", policy.kept))
    readable = [*python_folders(), *(path.resolve() for path in policy.readable)]
    mounts += [_Mount(path, "read") for path in readable]
    if policy.network and (place := name_server_place()) is not None:
        mounts.append(_Mount(place, "read", NAME_SERVERS))
    given = [policy.workspace, *policy.writable]
    mounts += [_Mount(path, "read" if policy.read_only else "write") for path in given]
    for root, found in looked.items():
        mounts += _guards(root, found)
    for path in (*own_folders(looked), *home_settings(looked)):
        mounts += [_Mount(path, "guard"), *_ancestors(path, looked)]
    mounts += [_Mount(path, "hide") for path in hidden_paths(policy)]
    chosen: dict[Path, _Mount] = {}
    for mount in sorted(mounts, key=lambda mount: _ORDER[mount.kind]):
        chosen[mount.path] = mount
    return sorted(chosen.values(), key=lambda mount: len(mount.path.parts))


def _guards(root: Path, found: Obeyed) -> list[_Mount]:
    """List mounts over files that a writer must not change, because they act later, outside the sandbox."""
    guards = [root / name for name in PROTECTED] if "" not in found.repositories else []
    mounts: list[_Mount] = []
    nearest = sorted(found.repositories, key=lambda path: (path.count("/"), path))[:_MAX_GUARDED]
    for git in (root / path for path in nearest):
        linked = git.parent.name == "worktrees"
        guards += _guarded_of(git, linked=linked)
        # A separate mount cannot be renamed and replaced.
        mounts += [_Mount(git, "write")] if git != root and not linked else []
        if not linked and ".git" in git.relative_to(root).parts[:-1]:
            mounts += _ancestors(git, [root])
    for path in guards:
        if path.is_symlink():
            raise CannotConfine(
                f"{path} is a symbolic link, so it cannot be protected from being replaced. Put the folder itself there."
            )
    known = sorted(found.guards, key=lambda path: (path.count("/"), path))[:_MAX_GUARDED]
    guards += [root / path for path in known]
    return mounts + [_Mount(path, "guard") for path in guards if not _unmakeable(path)]


def _guarded_of(git: Path, *, linked: bool) -> Iterator[Path]:
    """List protected files of a git folder, or of a worktree that is linked to one."""
    if linked:
        yield from (path for path in (git / "commondir", git / "gitdir") if path.exists())
    else:
        yield from (git / "hooks", git / "config", git / "commondir")
    if (git / "config.worktree").exists() or (not linked and _has_worktree_settings(git)):
        yield git / "config.worktree"


def _unmakeable(path: Path) -> bool:
    """Report whether the path is missing and neither bubblewrap nor the command can create it; a folder's owner could."""
    folder = path.parent
    if path.exists() or not folder.is_dir() or os.access(folder, os.W_OK):
        return False
    return folder.stat().st_uid != os.geteuid() or bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _ancestors(path: Path, roots: Iterable[Path]) -> list[_Mount]:
    """Return the parent folders as mounts, so that they cannot be renamed together with the inner mount."""
    return [
        _Mount(folder, "write")
        for folder in path.parents
        if any(folder != root and folder.is_relative_to(root) for root in roots)
    ]


def _has_worktree_settings(git: Path) -> bool:
    try:
        return "worktreeconfig" in (git / "config").read_text(errors="replace").lower()
    except OSError:
        return False


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)
