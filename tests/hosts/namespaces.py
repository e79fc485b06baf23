"""Namespaces that live as long as a process does, and whether this machine can make them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.needs import need, need_program

_BORN_SECONDS = 10.0


class Namespaces:
    """Namespaces of these kinds (`--net`, `--pid` …), held by a process in them that does nothing.

    They end, with every process in them, when this process ends in whatever way, or `end` is called.
    """

    def __init__(self, *kinds: str) -> None:
        # When we die `unshare` does (--pdeathsig), and with it the first process of the namespace, and so all others. Its output is not
        # ours: whoever reads our pipe to its end would wait for it.
        self._holder = _starter().submit(_hold, kinds).result()
        self.kinds = [kind for kind in kinds if kind in ("--mount", "--net", "--uts", "--pid", "--ipc")]
        self.pid = self._find_first()
        """Their first process."""

    def _find_first(self) -> int:
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        give_up = time.monotonic() + _BORN_SECONDS
        while time.monotonic() < give_up and self._holder.poll() is None:
            for born in children.read_text().split():
                # Until then it is a copy of `unshare`, whose mounts and names are not made yet.
                with suppress(OSError):
                    if Path(f"/proc/{born}/comm").read_text().strip() == "sleep":
                        return int(born)
            time.sleep(0.005)
        raise OSError("no namespace was made")

    def enter(self, *argv: str) -> list[str]:
        """The command that runs `argv` in them."""
        return ["nsenter", "-t", str(self.pid), *self.kinds, "--", *argv]

    def run(self, *argv: str, seconds: float = 60.0, **options: Any) -> str:
        """Run a command in them and return what it wrote; raises `AssertionError` with its errors if it fails."""
        done = subprocess.run(self.enter(*argv), capture_output=True, text=True, timeout=seconds, **options)
        assert done.returncode == 0, f"{' '.join(argv)[:200]}: {done.stdout[-500:]}{done.stderr[-2000:]}"
        return str(done.stdout)

    def script(self, lines: Sequence[str]) -> str:
        """Run a shell's lines in them, up to the first that fails."""
        return self.run("sh", "-c", "\n".join(["set -e", *lines]))

    def start(self, *argv: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a process in them, which ends with them."""
        return subprocess.Popen(self.enter(*argv), stdin=subprocess.DEVNULL, start_new_session=True, **options)

    @property
    def alive(self) -> bool:
        """Whether they still are there."""
        return self._holder.poll() is None

    def end(self) -> None:
        """End every process in them at one instant."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        self._holder.wait(10)


@cache
def _starter() -> ThreadPoolExecutor:
    """A thread that lives as long as we do: to the kernel a parent dies when its thread does."""
    return ThreadPoolExecutor(1, "namespaces")


def _hold(kinds: Sequence[str]) -> subprocess.Popen[bytes]:
    command = ["setpriv", "--pdeathsig=SIGKILL", "unshare", *kinds, "--fork", "--kill-child=SIGKILL"]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        [*command, "sleep", "infinity"], start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing
    )


@cache
def _refusal() -> str:
    """Why no host can be made here; empty if one can."""
    if os.geteuid():
        return "hosts are made by root only"
    try:
        trial = Namespaces("--net", "--pid", "--mount", "--uts", "--ipc", "--mount-proc", "--propagation", "private")
    except OSError as error:
        return f"this kernel or container makes no namespaces: {error}"
    try:
        trial.script(
            ["mount -t tmpfs none /mnt", "ip link add name b0 type bridge", "ip link add v0 type veth peer name v1"]
        )
        trial.script(["nft add table inet trial"])
    except AssertionError as error:
        return f"a namespace lacks what a host takes: {error}"
    finally:
        trial.end()
    return ""


def need_hosts() -> None:
    """Go on where hosts can be made, else skip with the reason (a failure where all must be there)."""
    for program in ("setpriv", "unshare", "nsenter", "ip", "nft"):
        need_program(program)
    need(not _refusal(), "a host made of namespaces", _refusal())
