"""Finds the sandbox that works on this host by a trial command, once per process on first use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from swarm.permissions.sandbox import bubblewrap, landlock
from swarm.permissions.sandbox.backend import Backend, CannotConfine, NoSandbox, Wanted
from swarm.permissions.sandbox.policy import SandboxPolicy
from swarm.permissions.sandbox.reader import landlock_abi
from swarm.permissions.sandbox.seccomp import make_filter

TRIAL_SECONDS = 20.0
_USER_NAMESPACES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile that gives bwrap `userns`, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
_INSTALL = "install bubblewrap with the system's package manager"
_TRIAL = 'echo in > "$TMPDIR/in" && ! { echo out > out; } 2>/dev/null && ! cat "$0" 2>/dev/null && echo held'
"""Writes to an allowed place, and tries to write and read at forbidden ones."""


def choose_backend(wanted: Wanted = "auto") -> Backend | NoSandbox:
    """Choose bubblewrap if it works, else Landlock, or the `wanted` backend. The result is cached for this process."""
    return _choose(wanted)


@lru_cache(maxsize=4)
def _choose(wanted: Wanted) -> Backend | NoSandbox:
    if wanted == "off":
        return NoSandbox("it is switched off", "set `sandbox` to `auto`")
    if sys.platform != "linux":
        return NoSandbox(f"no sandbox supports {sys.platform}", "run the workers on Linux, in a container for example")
    abi = landlock_abi()
    tried: list[NoSandbox] = []
    if wanted in ("auto", "bubblewrap"):
        found = _try_bubblewrap(abi)
        if isinstance(found, Backend):
            return found
        tried.append(found)
    if wanted in ("auto", "landlock"):
        found = _try_landlock(abi, note="; ".join(f"{each.reason}: {each.remedy}" for each in tried))
        if isinstance(found, Backend):
            return found
        tried.append(found)
    return NoSandbox(
        "; ".join(each.reason for each in tried), "; or ".join(each.remedy for each in tried if each.remedy)
    )


def _try_bubblewrap(abi: int) -> Backend | NoSandbox:
    program = shutil.which("bwrap")
    if program is None:
        return NoSandbox("bubblewrap is not installed", _INSTALL)
    held = bubblewrap.promises_of(root=os.geteuid() == 0)
    backend = Backend("bubblewrap", held, program=os.path.realpath(program), abi=abi)
    complaint = _try(backend)
    if complaint is None:
        return backend
    return NoSandbox(f"bubblewrap does not work here ({complaint})", _remedy_for_namespaces())


def _try_landlock(abi: int, note: str) -> Backend | NoSandbox:
    if abi < landlock.OLDEST_ABI:
        found = f"the kernel's Landlock has version {abi}" if abi else "the kernel has no Landlock"
        return NoSandbox(found, f"a kernel with Landlock {landlock.OLDEST_ABI}(Linux 6.2 or newer) is an alternative")
    if not make_filter("landlock", network=False, read_only=True, abi=abi):
        return NoSandbox(f"the system calls of {os.uname().machine} are not known, and Landlock needs a filter of them")
    backend = Backend("landlock", landlock.promises_of(abi, root=os.geteuid() == 0), abi=abi, note=note)
    complaint = _try(backend)
    return backend if complaint is None else NoSandbox(f"Landlock does not work here ({complaint})")


def _try(backend: Backend) -> str | None:
    """Run a trial command; returns None if the sandbox works, else the reason."""
    with tempfile.TemporaryDirectory(prefix="swarm-sandbox-") as folder:
        root = Path(folder).resolve()
        workspace, scratch, secret = root / "workspace", root / "scratch", root / "secret"
        workspace.mkdir()
        scratch.mkdir()
        secret.write_text("secret")
        policy = SandboxPolicy(workspace=workspace, scratch=scratch, read_only=True)
        try:
            argv = confine_argv(policy, backend, ["/bin/sh", "-c", _TRIAL, str(secret)])
            ran = subprocess.run(
                argv,
                cwd=workspace,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TRIAL_SECONDS,
            )
        except (OSError, subprocess.SubprocessError, CannotConfine) as error:
            return str(error)
        if ran.returncode == 0 and ran.stdout == "held\n":
            return None
        return (ran.stderr.strip().splitlines() or [f"a trial ended with status {ran.returncode}"])[-1]


def _remedy_for_namespaces() -> str:
    for path, forbidding, remedy in _USER_NAMESPACES:
        try:
            if Path(path).read_text().strip() == forbidding:
                return remedy
        except OSError:
            continue
    return "in a container, allow user namespaces and an unmasked /proc"


def confine_argv(policy: SandboxPolicy, backend: Backend, argv: list[str]) -> list[str]:
    """Return the command that runs `argv` under `policy`. Raises `CannotConfine` if the backend cannot enforce it."""
    wrap = bubblewrap.wrap if backend.name == "bubblewrap" else landlock.wrap
    return wrap(backend, policy, argv)
