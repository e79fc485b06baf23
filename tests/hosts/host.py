"""One host: its own network, mounts, processes and name, a disk that outlives its power, and what may happen to it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.hosts.namespaces import Namespaces
from tests.hosts.switch import NETWORK, Cable, Latency, Switch

CHECKOUT = Path(__file__).resolve().parents[2]
DISK = "/srv"
"""The one folder of a host that outlives its power, and the only one with room for much."""
_KINDS = ("--net", "--mount", "--pid", "--uts", "--ipc", "--mount-proc", "--propagation", "private")
_VOLATILE = ("/tmp", "/var/tmp", "/run", "/home", "/root")
_KEPT = (CHECKOUT, Path(sys.prefix), Path(sys.base_prefix))


class Host:
    """A host on a switch. What it writes is on its own disk (`/srv`) or in its own memory; the rest of the machine it can only read."""

    def __init__(
        self,
        switch: Switch,
        name: str,
        number: int,
        disk: Path,
        latency: Latency | None = None,
        *,
        boxes: bool = False,
    ) -> None:
        """With `boxes`, bubblewrap works on it: its `/proc` is whole, so that it shares the machine's boot id."""
        self.name, self.address, self._boxes = name, f"{NETWORK}.{number}", boxes
        self._switch, self._number, self._port, self._latency = switch, number, f"p{number}", latency
        self._disk = disk
        disk.mkdir(parents=True)
        self.switch_on()

    # -- power -----------------------------------------------------------------------------------------------

    def switch_on(self) -> None:
        """Give it power: it is there with an empty memory, and what its disk kept."""
        self._space = Namespaces(*_KINDS)
        self._space.script([*self._mounts(), f"hostname {shlex.quote(self.name)}"])
        self.cable: Cable = self._switch.join(self._port, self._space, self._latency)
        # Always the same card, or its neighbours would send to the old one for a while.
        card = f"ip link set eth0 address 02:77:00:00:00:{self._number:02x}"
        self._space.script(
            ["ip link set lo up", card, f"ip addr add {self.address}/24 dev eth0", "ip link set eth0 up"]
        )

    def cut_power(self) -> None:
        """End all its processes at one instant; nobody it talks with is told."""
        # The cable first, or the kernel would end the connections of the dead.
        self.cable.pull()
        self._space.end()
        self.cable.remove()

    @property
    def on(self) -> bool:
        """Whether it has power."""
        return self._space.alive

    # -- processes -------------------------------------------------------------------------------------------

    def entering(self, *argv: str) -> list[str]:
        """The command that runs `argv` on it."""
        return self._space.enter(*argv)

    def run(self, *argv: str, **options: Any) -> str:
        """Run a command on it and return what it wrote."""
        return self._space.run(*argv, **options)

    def start(self, *argv: str, log: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a process on it, whose output goes to this file of its disk."""
        with (self._disk / log).open("ab") as output:
            return self._space.start(*argv, stdout=output, stderr=subprocess.STDOUT, **options)

    def path(self, place: str) -> Path:
        """Where this machine finds a file of the host's disk, with or without power."""
        return self._disk / Path(place).relative_to(DISK)

    # -- the network -----------------------------------------------------------------------------------------

    def deafen(self, *others: Host) -> None:
        """Lose what comes from these hosts from now on; what goes to them arrives."""
        self._filter(*(f"ip saddr {other.address} drop" for other in others))

    def shut_out(self, port: int) -> None:
        """Lose what comes from this port of any host."""
        self._filter(f"tcp sport {port} drop")

    def lose(self, percent: int) -> None:
        """Lose so much of what comes, by chance."""
        self._filter(f"numgen random mod 100 < {percent} drop")

    def hear(self) -> None:
        """Lose nothing any more."""
        subprocess.run(self._space.enter("nft", "delete", "table", "inet", "test"), capture_output=True)

    def throttle(self, rate: str) -> None:
        """Let it send at most at this rate, such as `1mbit`."""
        shape = ["tbf", "rate", rate, "burst", "32kb", "latency", "400ms"]
        self.run("tc", "qdisc", "replace", "dev", "eth0", "root", *shape)

    def _filter(self, *rules: str) -> None:
        self._space.run("nft", "add table inet test")
        self._space.run("nft", "add chain inet test in { type filter hook input priority 0; }")
        for rule in rules:
            self._space.run("nft", f"add rule inet test in {rule}")

    # -- files -----------------------------------------------------------------------------------------------

    def _mounts(self) -> list[str]:
        """What makes its files its own: a disk, memory where programs write, all else read-only."""
        kept = [path for path in dict.fromkeys(_KEPT) if not path.is_relative_to("/usr")]
        lines = [
            "mount -t tmpfs aside /mnt",
            "mkdir /mnt/disk",
            f"mount --bind {shlex.quote(str(self._disk))} /mnt/disk",
        ]
        # Those that lie below what is covered now are put aside, and back over it.
        for number, path in enumerate(kept):
            lines += [f"mkdir /mnt/{number}", f"mount --bind {shlex.quote(str(path))} /mnt/{number}"]
        lines += ["mount -o remount,bind,ro /"]
        lines += [f"mount -t tmpfs -o mode=1777 {self.name} {place}" for place in _VOLATILE]
        lines += [f"mount --move /mnt/disk {DISK}"]
        for number, path in enumerate(kept):
            place = shlex.quote(str(path))
            lines += [f"mkdir -p {place} 2>/dev/null || true", f"mount --move /mnt/{number} {place}"]
            lines += [f"mount -o remount,bind,ro {place}"]
        # Each time it is switched on is another life of its kernel, as far as programs can see.
        life = [
            "cat /proc/sys/kernel/random/uuid > /run/boot_id",
            "mount --bind /run/boot_id /proc/sys/kernel/random/boot_id",
        ]
        return [
            *lines,
            "umount /mnt",
            f"printf '127.0.0.1 localhost {self.name}\\n' > /run/hosts",
            "mount --bind /run/hosts /etc/hosts",
            *([] if self._boxes else life),
        ]
