"""Workers of tests as copies of a process that has loaded what all of them need: most of what a worker's start costs is that.

A copy has the arguments, environment, folder and session of its own that a new process would have, and runs the same `celery`.
What differs: the interpreter is already there, so nothing that is read at its start (`PYTHONPATH`, `/proc/PID/environ`) is the copy's.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_MODULES = "anthropic celery.__main__ celery.bin.celery celery.worker kombu.transport.redis swarm.tasks.agent_task swarm.tasks.worker"
_REQUEST_BYTES = 1 << 18


class Forked:
    """A process as `subprocess.Popen` shows it, as far as tests look."""

    def __init__(
        self, argv: list[str], *, env: Mapping[str, str], cwd: Path, log: Path, after: str | None = None
    ) -> None:
        """Run `celery` with these arguments, `after` this module's `install`."""
        log.touch()
        self._original = _original()
        self.pid: int = self._original.ask(argv=argv, env=dict(env), cwd=str(cwd), log=str(log), after=after)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._original.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Original:
    """The process that is copied: one for each process of the tests, which it ends with."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            subprocess.Popen([sys.executable, "-m", __name__, str(theirs.fileno())], pass_fds=[theirs.fileno()])

    def ask(self, **request: Any) -> Any:
        with self._lock:
            self._line.send(json.dumps(request).encode())
            return json.loads(self._line.recv(_REQUEST_BYTES))


@cache
def _original() -> _Original:
    return _Original()


def _serve(line: socket.socket) -> bool:
    """Start copies and tell how they ended; returns True in each copy, and False when nobody asks any more."""
    while request := line.recv(_REQUEST_BYTES):
        asked = json.loads(request)
        if pid := asked.get("poll"):
            ended, status = os.waitpid(pid, os.WNOHANG)
            reply = os.waitstatus_to_exitcode(status) if ended else None
        elif not (reply := os.fork()):
            _become(**asked)
            return True
        line.send(json.dumps(reply).encode())
    return False


def _become(argv: list[str], env: dict[str, str], cwd: str, log: str, after: str | None) -> None:
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.path[0] = cwd
    sys.argv = argv
    if after is not None:
        import_module(after).install()


def main() -> None:
    """Load the modules, then serve whoever holds the other end of the socket."""
    for name in _MODULES.split():
        __import__(name)
    with socket.socket(fileno=int(sys.argv[1])) as line:
        copy = _serve(line)
    if copy:
        from celery.__main__ import main as celery

        celery()


if __name__ == "__main__":
    main()
