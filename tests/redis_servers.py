"""Redis servers of a test's own, beside the local one: behind TLS, on a small disk, as a primary with a replica and a sentinel.

Each can be killed, paused and started again. Close it when its fleet is closed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import redis
import trustme

from tests.waiting import wait_for

_COMMON = ("bind 127.0.0.1", "appendonly yes", "appendfsync everysec", 'save ""', "maxmemory-policy noeviction")


class OwnServer:
    """One Redis on a port of this host."""

    def __init__(self, binary: str) -> None:
        self._binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="swarm-r-"))
        [self.port] = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it, from what its append-only file kept, and wait until it answers."""
        config = self.folder / "redis.conf"
        config.write_text("\n".join([*_COMMON, *self._lines()]) + "\n")
        log = (self.folder / "redis.log").open("ab")
        self.process = subprocess.Popen(self._argv(config), stdout=log, stderr=subprocess.STDOUT)
        wait_for("Redis answers", self._answers_or_died)
        assert self.process.poll() is None, (self.folder / "redis.log").read_text()[-2000:]

    def kill(self) -> None:
        """`kill -9`."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        """Kill it and remove what it kept."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self) -> redis.Redis:
        """A client of its own, which gives up soon."""
        return redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=2, socket_connect_timeout=2)

    def _lines(self) -> list[str]:
        return [f"port {self.port}", f"dir {self.folder}"]

    def _argv(self, config: Path) -> list[str]:
        return [self._binary, str(config)]

    def _answers_or_died(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None or _answers(self.client())


class TlsServer(OwnServer):
    """One that speaks TLS only, with a certificate of an authority that was made for it and that nobody else trusts."""

    def __init__(self, binary: str) -> None:
        super().__init__(binary)
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        authority.cert_pem.write_to_path(str(self._path("ca.pem")))
        certificate.private_key_pem.write_to_path(str(self._path("key.pem")))
        certificate.cert_chain_pems[0].write_to_path(str(self._path("cert.pem")))

    @property
    def url(self) -> str:
        return f"rediss://localhost:{self.port}/0?ssl_ca_certs={self._path('ca.pem')}"

    def _path(self, name: str) -> Path:
        return self.folder / name

    def _lines(self) -> list[str]:
        return [
            *("port 0", f"tls-port {self.port}", f"dir {self.folder}", "tls-auth-clients no"),
            *(f"tls-cert-file {self._path('cert.pem')}", f"tls-key-file {self._path('key.pem')}"),
            f"tls-ca-cert-file {self._path('ca.pem')}",
        ]


class SmallDiskServer(OwnServer):
    """One whose append-only file is on a disk of a few MiB, which can be filled up. It needs user namespaces (`can_mount`)."""

    def __init__(self, binary: str, *, size_mib: int = 64) -> None:
        super().__init__(binary)
        self._disk = self.folder / "disk"
        self._disk.mkdir()
        # The mount lives in a namespace of this process, so nothing is left of it when that ends.
        mount = f"mount -t tmpfs -o size={size_mib}m tmpfs {self._disk} && echo mounted && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None and self._holder.stdout.readline() == b"mounted\n"

    def fill(self) -> None:
        """Leave no byte of its disk free."""
        with self._ballast().open("wb", buffering=0) as file:
            block = 1 << 20
            while block:
                try:
                    file.write(b"\0" * block)
                except OSError:
                    block //= 2

    def free(self) -> None:
        """Give the room back."""
        self._ballast().unlink(missing_ok=True)

    def refuses(self) -> bool:
        """Whether it can no longer write down what it is told."""
        return bool(self.client().info("persistence")["aof_last_write_status"] != "ok")

    def close(self) -> None:
        super().close()
        self._holder.kill()
        self._holder.wait(10)

    def _ballast(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/root{self._disk}/ballast")

    def _lines(self) -> list[str]:
        return [f"port {self.port}", f"dir {self._disk}", "auto-aof-rewrite-min-size 4mb"]

    def _argv(self, config: Path) -> list[str]:
        enter = ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", str(self._holder.pid)]
        return [*enter, *super()._argv(config)]


def can_mount() -> bool:
    """Whether a namespace with a mount of its own can be made here."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


# After an ordered change of roles Sentinel leaves the old primary in its role for ten seconds, and clients stay with it: whatever they
# write there is thrown away. A primary that takes nothing without its replica does not take that, either.
_TOGETHER = ("min-replicas-to-write 1", "min-replicas-max-lag 3", "repl-diskless-sync-delay 0")


class Group:
    """A primary, a replica and a sentinel that watches them; what only one of the two would know is refused."""

    SERVICE = "swarm"

    def __init__(self, binary: str) -> None:
        self._binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="swarm-r-"))
        first, second, self._sentinel = free_ports(3)
        self._servers: dict[int, subprocess.Popen[bytes]] = {}
        self._start(first)
        wait_for("the primary answers", lambda: _answers(_client(first)))
        self._start(second, f"replicaof 127.0.0.1 {first}")
        wait_for("the replica follows", lambda: _follows(second))
        watch = f"sentinel monitor {self.SERVICE} 127.0.0.1 {first} 1"
        times = (
            f"sentinel down-after-milliseconds {self.SERVICE} 1000",
            f"sentinel failover-timeout {self.SERVICE} 3000",
        )
        self._start(self._sentinel, watch, *times, sentinel=True)
        wait_for("the sentinel knows the replica", self._knows_replica)
        self.url = f"sentinel://127.0.0.1:{self._sentinel}/{self.SERVICE}/0"

    @property
    def pid(self) -> int:
        """The primary's process."""
        return self._servers[self.primary()].pid

    def primary(self) -> int:
        """The port of the primary, as the sentinel knows it."""
        answer = _client(self._sentinel).execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.SERVICE)
        return int(answer[1])

    def client(self) -> redis.Redis:
        """A client of the primary, which gives up soon."""
        return _client(self.primary())

    def kill_primary(self) -> None:
        """`kill -9` the primary, and wait until the replica has taken over; the dead one comes back as a replica."""
        dead = self.primary()
        self._servers[dead].kill()
        self._servers[dead].wait(10)
        wait_for("the replica has taken over", lambda: self.primary() != dead and _is_primary(self.primary()))
        self._start(dead, f"replicaof 127.0.0.1 {self.primary()}")

    def switch(self) -> None:
        """Have the two change their roles, both of them alive."""
        before = self.primary()
        _client(self._sentinel).execute_command("SENTINEL", "FAILOVER", self.SERVICE)
        wait_for("they have changed", lambda: self.primary() != before and _is_primary(self.primary()))

    def is_whole(self) -> bool:
        """Whether there is a replica that could take over now, and the sentinel knows it."""
        primary = self.primary()
        [replica] = [port for port in self._servers if port not in (primary, self._sentinel)]
        known = _client(self._sentinel).execute_command("SENTINEL", "REPLICAS", self.SERVICE)
        rows = [row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=False)) for row in known]
        return _follows(replica) and any(row["port"] == str(replica) and row["flags"] == "slave" for row in rows)

    def close(self) -> None:
        """Kill them and remove what they kept."""
        for process in self._servers.values():
            process.kill()
            process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, port: int, *lines: str, sentinel: bool = False) -> None:
        folder = self.folder / str(port)
        folder.mkdir(exist_ok=True)
        config = folder / "redis.conf"
        common: Sequence[str] = () if sentinel else (*_COMMON, *_TOGETHER)
        config.write_text("\n".join([f"port {port}", f"dir {folder}", *common, *lines]) + "\n")
        self._servers[port] = subprocess.Popen(
            [self._binary, str(config), *(["--sentinel"] if sentinel else [])], stdout=subprocess.DEVNULL
        )

    def _knows_replica(self) -> bool:
        try:
            return bool(_client(self._sentinel).execute_command("SENTINEL", "REPLICAS", self.SERVICE))
        except redis.RedisError:
            return False


def pause(pid: int, seconds: float) -> None:
    """Stop a process for a while, as a host that hangs would."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _client(port: int) -> redis.Redis:
    return redis.Redis(port=port, decode_responses=True, socket_timeout=2, socket_connect_timeout=2)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def _is_primary(port: int) -> bool:
    try:
        return bool(_client(port).info("replication")["role"] == "master")
    except redis.RedisError:
        return False


def _follows(port: int) -> bool:
    try:
        return bool(_client(port).info("replication").get("master_link_status") == "up")
    except redis.RedisError:
        return False
