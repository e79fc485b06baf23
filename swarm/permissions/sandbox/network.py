"""The network of a sandbox that may use one: a namespace of its own, and slirp4netns as its only way out.

From in there the host's loopback, the host's own addresses, link-local addresses (the metadata service of a cloud) and
Redis cannot be reached, and private networks only where the policy says so. It is decided by address and in the kernel,
by routes that the agent's processes have no right to change, so no name and no proxy leads around it. There is no IPv6.
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
"""The name server is one that slirp4netns plays."""
INFO_DESCRIPTOR, BLOCK_DESCRIPTOR, SYNC_DESCRIPTOR = "10", "11", "12"
TRIAL_SECONDS = 20.0
_INSTALL = "install slirp4netns with the system's package manager"
_LOCAL_ROUTES = Path("/proc/net/fib_trie")


def forbidden_networks(policy: SandboxPolicy) -> tuple[str, ...]:
    """What this policy's processes cannot reach, as `address/bits`."""
    networks = NEVER if policy.private_network else (*NEVER, *PRIVATE)
    single = [*_own_addresses(), *policy.unreachable]
    # There is no IPv6 in there.
    return (*(str(one) for one in networks if one.version == 4), *(f"{address}/32" for address in single))


def attach_argv(policy: SandboxPolicy, bwrap: list[str]) -> list[str]:
    """The command that runs `bwrap` and gives its namespace the network. Raises `CannotConfine` without slirp4netns."""
    program = shutil.which("slirp4netns")
    if program is None:
        raise CannotConfine(
            f"This agent may use the network, but slirp4netns is not installed on this host: {_INSTALL}."
        )
    words = [f"slirp={program}", *(f"prohibit={network}" for network in forbidden_networks(policy))]
    return [sys.executable, "-I", "-S", str(ATTACH), *words, "--", *bwrap]


def descriptor_words() -> list[str]:
    """What `bwrap` is told so that it can be attached: where to say its process, to wait, and to show that it lives."""
    return ["--info-fd", INFO_DESCRIPTOR, "--block-fd", BLOCK_DESCRIPTOR, "--sync-fd", SYNC_DESCRIPTOR]


def name_server_place() -> Path | None:
    """Where a sandbox needs `NAME_SERVERS`; None on a host that has no such file."""
    plain = Path("/etc/resolv.conf")
    return name_server_file() or (plain if plain.is_file() else None)


def resolve_hosts(hosts: list[str]) -> tuple[str, ...]:
    """The IPv4 addresses of hosts, for `SandboxPolicy.unreachable`; one that has none is left out."""
    found: dict[str, None] = {}
    for host in hosts:
        try:
            answers = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            continue
        found.update((str(answer[4][0]), None) for answer in answers)
    return tuple(found)


def network_trouble(backend: Backend) -> str | None:
    """Why agents' processes get no network on this host; None where a trial went well. Kept for this process."""
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
    """This host's addresses: all that the kernel would keep to itself."""
    try:
        lines = _LOCAL_ROUTES.read_text().splitlines()
    except OSError as error:
        raise CannotConfine(f"This agent may use the network, but {_LOCAL_ROUTES} cannot be read: {error}") from error
    found = {name.split()[-1] for name, kind in pairwise(lines) if kind.split()[-2:] == ["host", "LOCAL"]}
    # Its own loopback is all that a namespace knows under that name.
    return sorted(address for address in found if not address.startswith("127."))
