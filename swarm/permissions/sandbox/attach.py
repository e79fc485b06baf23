"""Give a sandbox its network, as a separate program: `python -I -S attach.py WORD… -- BWRAP…`.

The program becomes `bwrap`, which waits before it starts the command. A child reads the sandbox's namespace from `bwrap`, adds
the forbidden routes (`prohibit=ADDRESS/BITS`) and becomes slirp4netns (`slirp=PATH`). Its own child lets the command begin
when the network is ready.

Guarantee: the command begins with the routes in place, or not at all. slirp4netns ends with the sandbox.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
import time

CANNOT_ATTACH = 126
_INFO, _BLOCK, _SYNC = 10, 11, 12
_SIGKILL = 9
_NS_GET_USERNS = 0xB701
_NEWUSER, _NEWNET = 0x1000_0000, 0x4000_0000
_NEWROUTE, _REQUEST_CREATE_ACK = 24, 0x405
_MAIN_TABLE, _STATIC, _PROHIBIT, _DESTINATION = 254, 4, 8, 1
_ERROR = 2
_GET_FLAGS, _UP = 0x8913, 1
_LOOPBACK_SECONDS = 10.0
_MAX_COMPLAINT = 4_000


class CannotAttach(Exception):
    """A step of attaching the network failed."""


def main(arguments: list[str]) -> None:
    """Become `bwrap`, with a child that attaches the network."""
    at = arguments.index("--")
    words, argv = arguments[:at], arguments[at + 1 :]
    slirp = next(word[6:] for word in words if word.startswith("slirp="))
    networks = [word[9:] for word in words if word.startswith("prohibit=")]
    (info, info_end), (block_end, block), (exit_fd, sync) = os.pipe(), os.pipe(), os.pipe()
    if os.fork() == 0:
        for fd in (info_end, block_end, sync):
            os.close(fd)
        _attach(slirp, networks, info, block, exit_fd)
    for fd, number in ((info_end, _INFO), (block_end, _BLOCK), (sync, _SYNC)):
        os.dup2(fd, number)
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
        os._exit(CANNOT_ATTACH)


def _attach(slirp: str, networks: list[str], info: int, block: int, exit_fd: int) -> None:
    sandbox = _read_process(info)
    if sandbox == 0:
        os._exit(0)  # bwrap failed and has reported the reason
    try:
        net = os.open(f"/proc/{sandbox}/ns/net", os.O_RDONLY)
        user = fcntl.ioctl(net, _NS_GET_USERNS)
        _forbid(user, net, networks)
        _become_slirp(slirp, sandbox, user, net, block, exit_fd)
    except (CannotAttach, OSError) as error:
        _give_up(sandbox, str(error))


def _read_process(info: int) -> int:
    """Read the sandbox's first process from the JSON that bwrap writes in pieces; 0 if there is none."""
    text = b""
    while b"}" not in text:
        piece = os.read(info, 4096)
        if not piece:
            return 0
        text += piece
    return int(text.partition(b'"child-pid":')[2].split(b",")[0].strip(b" \n}"))


def _forbid(user: int, net: int, networks: list[str]) -> None:
    """Add the routes from inside the namespaces, in a process that then ends."""
    pid = os.fork()
    if pid == 0:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            for fd, kind in ((user, _NEWUSER), (net, _NEWNET)):
                if libc.setns(fd, kind) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            _wait_for_loopback()
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
                for number, network in enumerate(networks, 1):
                    _add_route(link, number, network)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise CannotAttach("the routes that forbid addresses could not be set")


def _wait_for_loopback() -> None:
    """Wait until bwrap has set up the loopback device; bwrap fails if slirp4netns is first."""
    give_up = time.monotonic() + _LOOPBACK_SECONDS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while not struct.unpack_from("H", fcntl.ioctl(any_socket, _GET_FLAGS, b"lo".ljust(40, b"\0")), 16)[0] & _UP:
            if time.monotonic() > give_up:
                raise CannotAttach("bwrap did not set the loopback device up")
            time.sleep(0.001)


def _add_route(link: socket.socket, number: int, network: str) -> None:
    address, _, bits = network.partition("/")
    route = struct.pack("=BBBBBBBBI", socket.AF_INET, int(bits), 0, 0, _MAIN_TABLE, _STATIC, 0, _PROHIBIT, 0)
    route += struct.pack("=HH", 8, _DESTINATION) + socket.inet_aton(address)
    link.send(struct.pack("=IHHII", 16 + len(route), _NEWROUTE, _REQUEST_CREATE_ACK, number, 0) + route)
    answer = link.recv(65_536)
    kind, code = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
    if kind != _ERROR or code not in (0, -17):  # the route may exist already
        raise CannotAttach(f"the kernel did not take the route for {network}")


def _become_slirp(slirp: str, sandbox: int, user: int, net: int, block: int, exit_fd: int) -> None:
    ready, ready_end = os.pipe()
    said = os.memfd_create("said")
    if os.fork() == 0:
        os.close(ready_end)
        if not os.read(ready, 1):
            _give_up(sandbox, _complaint(said))
        os.write(block, b"1")
        os._exit(0)
    os.close(block)
    null = os.open(os.devnull, os.O_RDWR)
    for fd, number in ((null, 0), (null, 1), (said, 2)):
        os.dup2(fd, number)
    for fd in (user, net, ready_end, exit_fd):
        os.set_inheritable(fd, True)
    argv = [slirp, "--configure", "--mtu=65520", "--disable-host-loopback", "--enable-seccomp"]
    # Without root, slirp4netns would become root of the namespace, and no root is mapped there.
    argv += ["--enable-sandbox"] if os.geteuid() == 0 else []
    argv += ["--netns-type=path", f"--userns-path=/proc/self/fd/{user}", f"--ready-fd={ready_end}"]
    os.execv(slirp, [*argv, f"--exit-fd={exit_fd}", f"/proc/self/fd/{net}", "tap0"])


def _complaint(said: int) -> str:
    lines = os.pread(said, _MAX_COMPLAINT, 0).decode(errors="replace").strip().splitlines()
    failed = [line for line in lines if not line.startswith(("WARNING", "sent ", "received "))]
    return f"slirp4netns: {'; '.join(failed) or 'it ended without a message'}"


def _give_up(sandbox: int, why: str) -> None:
    """End the sandbox before its command begins."""
    os.write(2, f"cannot enter the sandbox: no network: {why}\n".encode())
    try:
        os.kill(sandbox, _SIGKILL)
    except OSError:
        pass
    os._exit(CANNOT_ATTACH)


if __name__ == "__main__":
    main(sys.argv[1:])
