"""The sandbox for every process that an agent starts: a policy and a command in, a confined command out.

    match choose_backend():
        case Backend() as backend:
            argv = confine_argv(SandboxPolicy(workspace, scratch, read_only=True), backend, ["bash", "-c", command])
        case NoSandbox() as none:
            refuse(none.refusal)

It fails closed. Without a sandbox, agents that need one get no shell. A policy that a backend cannot enforce raises `CannotConfine`.
"""

from __future__ import annotations

from swarm.permissions.sandbox.backend import PROMISES, Backend, CannotConfine, NoSandbox, Promise, Wanted
from swarm.permissions.sandbox.host import close_to_others
from swarm.permissions.sandbox.network import network_trouble, resolve_hosts
from swarm.permissions.sandbox.policy import SandboxPolicy, toolchain_folders
from swarm.permissions.sandbox.probe import choose_backend, confine_argv

__all__ = [
    "PROMISES",
    "Backend",
    "CannotConfine",
    "NoSandbox",
    "Promise",
    "SandboxPolicy",
    "Wanted",
    "choose_backend",
    "close_to_others",
    "confine_argv",
    "network_trouble",
    "resolve_hosts",
    "toolchain_folders",
]
