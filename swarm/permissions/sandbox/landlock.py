"""The sandbox of Landlock and a filter on system calls, for hosts without user namespaces.

A Landlock rule grants a whole folder, and nothing in it can be excluded. So git's hooks and settings in a
writer's workspace cannot be protected from its shell, only restored afterwards. A granted folder also cannot
contain hidden paths.
"""

from __future__ import annotations

import os

from swarm.permissions.sandbox.arguments import common_words, enter_argv, watch_words
from swarm.permissions.sandbox.backend import WORK_ON_ITSELF, Backend, CannotConfine, Promise
from swarm.permissions.sandbox.host import (
    PROCESSORS,
    SYSTEM_FOLDERS,
    hidden_paths,
    own_folders,
    public_configuration,
    python_folders,
    settings_of_people,
)
from swarm.permissions.sandbox.obeyed import look
from swarm.permissions.sandbox.policy import SandboxPolicy
from swarm.permissions.sandbox.seccomp import make_filter

OLDEST_ABI = 3
"""The first version that restricts truncation (Linux 6.2)."""
SCOPES_ABI = 6
"""The first version that restricts signals to processes outside (Linux 6.12)."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""No terminals, because their folder contains those of all users, also the person's."""


def wrap(backend: Backend, policy: SandboxPolicy, argv: list[str]) -> list[str]:
    """Return the command that runs `argv` under the policy. Raises `CannotConfine` if Landlock cannot express it."""
    if policy.network:
        raise CannotConfine(
            "This agent may use the network, and Landlock cannot block this host's own services for it. "
            "Install bubblewrap and slirp4netns on this host."
        )
    for path in hidden_paths(policy):
        raise CannotConfine(
            f"{path} must stay hidden, but it lies in a folder that this agent may read, and Landlock cannot hide it there. "
            "Install bubblewrap on this host, or move one of the two."
        )
    given = [policy.workspace, *policy.writable]
    for path in own_folders(given) if not policy.read_only else ():
        raise CannotConfine(
            f"{path} is part of the swarm that runs this agent and lies in a folder that the agent may write, and Landlock "
            f"cannot protect it there. {WORK_ON_ITSELF}, or install bubblewrap on this host."
        )
    readable = [*SYSTEM_FOLDERS, *public_configuration(), PROCESSORS, *python_folders(), *policy.readable]
    writable = [policy.scratch]
    readable += [policy.kept] if policy.kept is not None else []
    (readable if policy.read_only else writable).extend(given)
    words = common_words(policy, scratch=str(policy.scratch), home=str(policy.kept or policy.scratch))
    # The kernel does not count root's processes; the supervisor does.
    words += [] if os.geteuid() == 0 else [f"processes={policy.max_processes}"]
    words += ["drop=1", f"landlock={backend.abi}", "read=/proc"]
    words += ["scope=1"] if backend.abi >= SCOPES_ABI else []
    words += [f"read={path}" for path in readable] + [f"write={path}" for path in writable]
    words += [f"device={path}" for path in _DEVICES]
    if not policy.read_only:
        own = settings_of_people(policy)
        words += watch_words({root: look(str(root), own) for root in given}, own)
    code = make_filter("landlock", network=False, read_only=policy.read_only, abi=backend.abi)
    return enter_argv([*words, f"filter={code.hex()}"], argv)


def promises_of(abi: int, *, root: bool) -> frozenset[Promise]:
    """Return the promises of this Landlock version, together with the filter."""
    held: set[Promise] = {"files", "network"}
    if abi >= SCOPES_ABI:
        held.add("signals")
    if not root:
        held.add("process count")
    return frozenset(held)
