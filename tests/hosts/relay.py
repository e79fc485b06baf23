"""A cable with latency, jitter and loss, for kernels without `sch_netem`: two TAP devices and a relay between them.

    relay.py PID_A NAME_A PID_B NAME_B DELAY_MS JITTER_MS LOSS_PERCENT

The devices are made in the network namespaces of the two processes. It writes `up` when they are there. A line `DELAY JITTER LOSS` on
its input changes it; it ends when its input does. Frames keep their order in each direction.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

_CLONE_NEWNET, _TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x40000000, 0x400454CA, 2, 0x1000
_AT_ONCE = 64


def make_tap(pid: int, name: str) -> int:
    """A TAP device in the network namespace of a process, which this process is in from then on."""
    with open(f"/proc/{pid}/ns/net") as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return device


class Relay:
    """Carries frames between two devices, each when its time has come."""

    def __init__(self, ends: tuple[int, int], delay_ms: float, jitter_ms: float, loss_percent: float) -> None:
        self._other = {ends[0]: ends[1], ends[1]: ends[0]}
        self._last = dict.fromkeys(ends, 0.0)
        self._due: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._delay, self._jitter, self._loss = delay_ms / 1000, jitter_ms / 1000, loss_percent / 100

    def serve(self) -> None:
        """Carry frames until the input ends."""
        while True:
            self._deliver()
            rest = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            ready, _, _ = select.select([*self._other, 0], [], [], rest)
            for source in ready:
                if source == 0:
                    if not (line := sys.stdin.readline()):
                        return
                    delay, jitter, loss = map(float, line.split())
                    self._delay, self._jitter, self._loss = delay / 1000, jitter / 1000, loss / 100
                else:
                    self._take(source)

    def _take(self, source: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                frame = os.read(source, 65_536)
            except OSError:  # none is left, or the device is down
                return
            if random.random() < self._loss:
                continue
            due = max(self._last[source], time.monotonic() + self._delay + random.random() * self._jitter)
            self._last[source], self._count = due, self._count + 1
            heapq.heappush(self._due, (due, self._count, self._other[source], frame))

    def _deliver(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(self._due)
            try:
                os.write(target, frame)
            except OSError:
                pass  # the other end is down: the frame is lost


def main() -> None:
    """Serve, as the arguments say."""
    ends = (make_tap(int(sys.argv[1]), sys.argv[2]), make_tap(int(sys.argv[3]), sys.argv[4]))
    print("up", flush=True)
    Relay(ends, *map(float, sys.argv[5:8])).serve()


if __name__ == "__main__":
    main()
