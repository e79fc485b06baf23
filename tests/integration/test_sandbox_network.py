"""An agent with the network reaches the world, and neither its host nor what is near it: real namespaces, real sockets.

Tests of swarm/permissions/sandbox/attach.py, swarm/permissions/sandbox/network.py, swarm/permissions/sandbox/policy.py,
swarm/permissions/sandbox/probe.py.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from swarm.permissions.sandbox import Backend, CannotConfine, SandboxPolicy, confine_argv
from swarm.permissions.sandbox.network import forbidden_networks, network_trouble, resolve_hosts
from swarm.permissions.sandbox.probe import choose_backend
from tests.integration.sandbox_world import IS_ROOT, USERS, SandboxWorld, open_world
from tests.needs import lack, need_network
from tests.waiting import wait_for

SERVER = """
import socket
def serve(one):
    while True:
        with one.accept()[0] as peer:
            peer.sendall(b"here")
server = socket.create_server(("0.0.0.0", {port}))
print("ready", flush=True)
serve(server)
"""
CLIENT = """
import socket, sys
for address in sys.argv[1:]:
    host, port = address.rsplit(":", 1)
    try:
        with socket.socket() as one:
            one.settimeout(5)
            if host.startswith("tap0/"):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"tap0")
                host = host[5:]
                one.settimeout(1)
            one.connect((host, int(port)))
            print(address, one.recv(10).decode())
    except OSError as error:
        print(address, "not")
"""


@dataclass(frozen=True)
class Neighbour:
    """Another machine, one cable away, with an address of each kind; a service listens on all, and on this host's own."""

    public: str
    private: str
    link_local: str
    redis: str
    own: str
    port: int

    def service(self, address: str) -> str:
        return f"{address}:{self.port}"


@contextmanager
def _serving(*prefix: str, port: int) -> Iterator[None]:
    argv = [*prefix, sys.executable, "-c", SERVER.format(port=port)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == b"ready\n"
        yield
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Neighbour]:
    if not IS_ROOT or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        lack("a cable between network namespaces", "only root can lay one, with `ip`, `unshare` and `nsenter`")
    last = random.randrange(1, 60) * 4
    port = random.randrange(20_000, 30_000)
    cable = f"sw{os.getpid()}"
    here, there = f"198.51.100.{last + 1}", f"198.51.100.{last + 2}"
    redis = f"203.0.113.{last + 2}"
    found = Neighbour(there, f"10.77.{last}.2", f"169.254.{last}.254", redis, here, port)
    with ExitStack() as stack:
        other = subprocess.Popen(["unshare", "--net", "sleep", "600"])
        stack.callback(other.wait)
        stack.callback(other.kill)
        own = os.readlink("/proc/self/ns/net")
        wait_for("it has a namespace of its own", lambda: os.readlink(f"/proc/{other.pid}/ns/net") != own)
        inside = ["nsenter", "-t", str(other.pid), "-n"]
        more = [found.private, found.link_local, found.redis]
        for command in (
            ["ip", "link", "add", cable, "type", "veth", "peer", "name", "there", "netns", str(other.pid)],
            ["ip", "address", "add", f"{here}/30", "dev", cable],
            ["ip", "link", "set", cable, "up"],
            [*inside, "ip", "link", "set", "lo", "up"],
            [*inside, "ip", "address", "add", f"{there}/30", "dev", "there"],
            [*inside, "ip", "link", "set", "there", "up"],
            *([*inside, "ip", "address", "add", f"{each}/32", "dev", "there"] for each in more),
            *(["ip", "route", "add", f"{each}/32", "via", there] for each in more),
        ):
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode != 0:
                lack("a cable between network namespaces", f"{' '.join(command)}: {ran.stderr.strip()}")
        stack.enter_context(_serving(*inside, port=port))
        stack.enter_context(_serving(port=port))
        yield found


@contextmanager
def _networked(user: str) -> Iterator[SandboxWorld]:
    need_network()
    with open_world("bubblewrap", user) as world:
        yield world


@pytest.fixture
def world() -> Iterator[SandboxWorld]:
    with _networked("this user") as world:
        yield world


def _reach(world: SandboxWorld, *addresses: str, **policy: Any) -> dict[str, bool]:
    path = world.file(world.workspace / "client.py", CLIENT)
    ran = world.run(f"/usr/bin/python3 {path} {' '.join(addresses)}", **policy)
    assert ran.exit_code == 0, ran
    told = dict(line.split() for line in ran.output.splitlines())
    assert told.keys() == set(addresses), ran
    return {address: answer == "here" for address, answer in told.items()}


def test_what_is_reached_with_the_network_is_the_world_and_not_the_neighbourhood(
    world: SandboxWorld, neighbour: Neighbour
) -> None:
    at = neighbour.service
    everything = [at(neighbour.public), at(neighbour.private), at(neighbour.link_local), at(neighbour.redis)]
    everything += [at(neighbour.own), at("127.0.0.1"), at("10.0.2.2"), at("10.0.2.3"), at("0.0.0.0")]
    outside = _reach(world, *everything[:6], open=True)
    assert all(outside.values()), "without a sandbox all of them answer"
    public = _reach(world, *everything, network=True, unreachable=[neighbour.redis])
    assert [address for address, reached in public.items() if reached] == [at(neighbour.public)]
    private = _reach(world, *everything, network=True, unreachable=[neighbour.redis], private_network=True)
    reached = [address for address, found in private.items() if found]
    assert reached == [at(neighbour.public), at(neighbour.private)]
    assert not any(_reach(world, *everything).values()), "without the network nothing is reached"


def test_a_socket_tied_to_the_device_does_not_go_round_the_routes(world: SandboxWorld, neighbour: Neighbour) -> None:
    tied = [f"tap0/{neighbour.service(address)}" for address in (neighbour.own, neighbour.link_local, neighbour.redis)]
    assert not any(_reach(world, *tied, network=True, unreachable=[neighbour.redis]).values())


def test_the_routes_cannot_be_changed_from_inside(world: SandboxWorld, neighbour: Neighbour) -> None:
    for command in (
        f"ip route del {neighbour.own}",
        "ip route flush table main",
        f"ip route replace {neighbour.own} via 10.0.2.2",
        "ip link set lo down",
        "unshare --user --map-root-user true",
    ):
        assert world.run(command, network=True).exit_code != 0, command
    assert not any(_reach(world, neighbour.service(neighbour.own), network=True).values())


def test_names_are_asked_of_the_host_name_server_by_a_file_of_its_own(world: SandboxWorld) -> None:
    ran = world.run("grep -v '^#' /etc/resolv.conf; ls /proc/self/fd | wc -l", network=True)
    assert ran.output.splitlines() == ["nameserver 10.0.2.3", "4"], "and no descriptor of the way in is left open"


@pytest.mark.parametrize("user", USERS)
def test_every_user_has_the_network(user: str) -> None:
    with _networked(user) as world:
        ran = world.run("cat /proc/net/dev", network=True)
        assert "tap0:" in ran.output, ran


def test_slirp4netns_ends_with_the_command_and_with_its_supervisor(world: SandboxWorld) -> None:
    process = world.start("echo started > here; sleep 300", network=True)
    wait_for("it runs", lambda: (world.workspace / "here").read_text() == "started\n")
    family = psutil.Process(process.pid).children(recursive=True)
    assert [one for one in family if one.name() == "slirp4netns"]
    process.kill()
    wait_for(
        "all have ended", lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family)
    )
    world.end(process)


def test_a_command_does_not_begin_without_its_network(world: SandboxWorld, tmp_path: Path) -> None:
    broken = tmp_path / "slirp4netns"
    broken.write_text("#!/bin/sh\necho it does not work here >&2\nexit 1\n")
    broken.chmod(0o755)
    argv = _argv_with(str(broken), world)
    ran = subprocess.run(argv, cwd=world.workspace, capture_output=True, text=True, timeout=30)
    assert ran.returncode != 0
    assert "no network: slirp4netns: it does not work here" in ran.stderr
    assert not (world.workspace / "begun").exists()


def _argv_with(program: str, world: SandboxWorld) -> list[str]:
    backend = choose_backend("bubblewrap")
    assert isinstance(backend, Backend)
    policy = SandboxPolicy(workspace=world.workspace, scratch=world.scratch, read_only=False, network=True)
    argv = confine_argv(policy, backend, ["/usr/bin/touch", str(world.workspace / "begun")])
    return [f"slirp={program}" if word.startswith("slirp=") else word for word in argv]


def test_without_slirp4netns_the_network_is_refused_and_the_reason_says_what_to_install(
    world: SandboxWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotConfine, match="install slirp4netns"):
        _argv_with("", world)


def test_landlock_refuses_the_network_and_names_what_gives_it(tmp_path: Path) -> None:
    backend = Backend("landlock", frozenset(), abi=7)
    policy = SandboxPolicy(workspace=tmp_path, scratch=tmp_path, read_only=False, network=True)
    with pytest.raises(CannotConfine, match="bubblewrap and slirp4netns"):
        confine_argv(policy, backend, ["true"])
    assert "Landlock" in (network_trouble(backend) or "")


def test_this_hosts_own_addresses_are_forbidden(tmp_path: Path) -> None:
    found = forbidden_networks(SandboxPolicy(workspace=tmp_path, scratch=tmp_path, read_only=True))
    own = [one.address for each in psutil.net_if_addrs().values() for one in each if one.family == socket.AF_INET]
    assert {f"{address}/32" for address in own if address != "127.0.0.1"} <= set(found)
    assert {"169.254.0.0/16", "10.0.0.0/8", "168.63.129.16/32", "100.100.100.200/32"} <= set(found)
    private = forbidden_networks(
        SandboxPolicy(workspace=tmp_path, scratch=tmp_path, read_only=True, private_network=True)
    )
    assert "10.0.0.0/8" not in private and {"168.63.129.16/32", "100.100.100.200/32"} <= set(private)
    assert resolve_hosts(["localhost", "192.0.2.7", "nowhere.invalid"]) == ("127.0.0.1", "192.0.2.7")
