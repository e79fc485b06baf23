"""The network of a sandbox: a separate namespace, with slirp4netns as its only way out.

The sandbox cannot reach the host's loopback, the host's own addresses, link-local addresses (a cloud's metadata service) and
Redis. It reaches private networks only if the policy allows them. The kernel decides by address, with routes that the agent's
processes cannot change, so no name or proxy bypasses it. There is no IPv6.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from swarm.permissions.networks import NEVER, PRIVATE
from swarm.permissions.sandbox.backend import Backend, CannotConfine
from swarm.permissions.sandbox.host import name_server_file
from swarm.permissions.sandbox.policy import SandboxPolicy

ATTACH = Path(__file__).with_name("attach.py")
NAME_SERVERS = Path(__file__).with_name("resolv.conf")
"""A `resolv.conf` with the name server of slirp4netns."""
INFO_DESCRIPTOR, BLOCK_DESCRIPTOR, SYNC_DESCRIPTOR = "10", "11", "12"
TRIAL_SECONDS = 20.0
_INSTALL = "install slirp4netns with the system's package manager"
_LOCAL_ROUTES = Path("/proc/net/fib_trie")


def forbidden_networks(policy: SandboxPolicy) -> tuple[str, ...]:
    """Return the networks that this policy forbids, as `address/bits`."""
    networks = NEVER if policy.private_network else (*NEVER, *PRIVATE)
    single = [*_own_addresses(), *policy.unreachable]
    # The sandbox has no IPv6.
    return (*(str(one) for one in networks if one.version == 4), *(f"{address}/32" for address in single))


def attach_argv(policy: SandboxPolicy, bwrap: list[str]) -> list[str]:
    """Return the command that runs `bwrap` with a network. Raises `CannotConfine` without slirp4netns."""
    program = shutil.which("slirp4netns")
    if program is None:
        raise CannotConfine(
            f"This agent may use the network, but slirp4netns is not installed on this host: {_INSTALL}."
        )
    words = [f"slirp={program}", *(f"prohibit={network}" for network in forbidden_networks(policy))]
    return [sys.executable, "-I", "-S", str(ATTACH), *words, "--", *bwrap]


def descriptor_words() -> list[str]:
    """Return the options of `bwrap` for attaching: descriptors to report its process, to wait, and to show that it runs."""
    return ["--info-fd", INFO_DESCRIPTOR, "--block-fd", BLOCK_DESCRIPTOR, "--sync-fd", SYNC_DESCRIPTOR]


def name_server_place() -> Path | None:
    """Return the path in the sandbox for `NAME_SERVERS`; None on a host without such a file."""
    plain = Path("/etc/resolv.conf")
    return name_server_file() or (plain if plain.is_file() else None)


def resolve_hosts(hosts: list[str]) -> tuple[str, ...]:
    """Return the IPv4 addresses of hosts, for `SandboxPolicy.unreachable`; hosts without one are skipped."""
    found: dict[str, None] = {}
    for host in hosts:
        try:
            answers = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            continue
        found.update((str(answer[4][0]), None) for answer in answers)
    return tuple(found)


def network_trouble(backend: Backend) -> str | None:
    """Return the reason why agents get no network on this host; None after a successful trial. Cached for this process."""
    return _trouble(backend)


@lru_cache(maxsize=4)
def _trouble(backend: Backend) -> str | None:
    from swarm.permissions.sandbox.probe import confine_argv

    with tempfile.TemporaryDirectory(prefix="swarm-network-") as name:
        folder = Path(name).resolve()
        policy = SandboxPolicy(workspace=folder, scratch=folder, read_only=True, network=True)
        try:
            argv = confine_argv(policy, backend, ["/bin/sh", "-c", "echo attached"])
            ran = subprocess.run(
                argv, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TRIAL_SECONDS
            )
        except CannotConfine as error:
            return str(error)
        except (OSError, subprocess.SubprocessError) as error:
            return f"a trial failed: {error}"
    if ran.returncode == 0 and ran.stdout == "attached\n":
        return None
    return (ran.stderr.strip().splitlines() or [f"a trial ended with status {ran.returncode}"])[-1]


def _own_addresses() -> list[str]:
    """Return this host's own addresses, from the kernel's local routes."""
    try:
        lines = _LOCAL_ROUTES.read_text().splitlines()
    except OSError as error:
        raise CannotConfine(f"This agent may use the network, but {_LOCAL_ROUTES} cannot be read: {error}") from error
    found = {name.split()[-1] for name, kind in pairwise(lines) if kind.split()[-2:] == ["host", "LOCAL"]}
    # In a namespace, these addresses are its own loopback.
    return sorted(address for address in found if not address.startswith("127."))
