"""The network that hosts are joined by: a bridge in a namespace of its own, so that nothing shows up on the machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.namespaces import Namespaces

NETWORK = "10.77.0"


@dataclass(frozen=True)
class Latency:
    """What a cable does to each frame, in each direction; frames keep their order."""

    delay_ms: float
    jitter_ms: float = 0.0
    loss_percent: float = 0.0

    def words(self) -> list[str]:
        """As `relay.py` reads it."""
        return [str(self.delay_ms), str(self.jitter_ms), str(self.loss_percent)]


class Cable:
    """Joins a port of the switch and a host. It may be pulled; one with a relay has a latency, too."""

    def __init__(self, switch: Switch, port: str, end: Namespaces, latency: Latency | None) -> None:
        self._switch, self._port = switch, port
        self._relay: subprocess.Popen[str] | None = None
        if latency is None:
            # One end straight into the switch, the other straight into the host.
            pair = ["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(end.pid)]
            switch.space.run(*pair)
        else:
            relay = Path(__file__).with_name("relay.py")
            argv = [sys.executable, str(relay), str(end.pid), "eth0", str(switch.space.pid), port, *latency.words()]
            self._relay = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self._relay.stdout is not None and self._relay.stdout.readline() == "up\n"
        switch.space.script([f"ip link set {port} master sw0", f"ip link set {port} up"])

    def pull(self) -> None:
        """Frames vanish, and nobody is told: sockets stay as they are."""
        self._switch.space.run("ip", "link", "set", self._port, "down")

    def plug_in(self) -> None:
        """Put it back."""
        self._switch.space.run("ip", "link", "set", self._port, "up")

    def change(self, latency: Latency) -> None:
        """Let frames take this long from now on; only a cable that was made with a latency."""
        assert self._relay is not None and self._relay.stdin is not None, "it was made without a latency"
        print(*latency.words(), file=self._relay.stdin, flush=True)

    def remove(self) -> None:
        """Take it away; the port may be used again."""
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait(10)
            assert self._relay.stdin is not None and self._relay.stdout is not None
            self._relay.stdin.close()
            self._relay.stdout.close()
        # A cable without a relay went with its other end, at the latest when the kernel has cleaned that up.
        subprocess.run(self._switch.space.enter("ip", "link", "delete", self._port), capture_output=True)


class Switch:
    """A bridge to which hosts are joined."""

    def __init__(self) -> None:
        self.space = Namespaces("--net")
        self.space.script(
            ["ip link set lo up", "ip link add name sw0 type bridge stp_state 0 forward_delay 0", "ip link set sw0 up"]
        )

    def join(self, port: str, end: Namespaces, latency: Latency | None = None) -> Cable:
        """A cable between a port and a host, where it is `eth0`."""
        return Cable(self, port, end, latency)

    def end(self) -> None:
        """Take the network away."""
        self.space.end()
