"""`swarm` and `python` for the shell of a test: the commands as they are, run by forks of one process that has loaded them.

A page has a hundred commands, and each would take most of a second of a processor for its imports alone.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_MOST_BYTES = 1 << 18
_CLIENT = f"""#!{sys.executable} -IS
import json, os, socket, sys
there = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
there.connect(os.path.join(os.path.dirname(__file__), "socket"))
asked = [os.path.basename(__file__), sys.argv[1:], os.getcwd(), dict(os.environ)]
socket.send_fds(there, [json.dumps(asked).encode()], [0, 1, 2])
sys.exit(int(there.recv(16) or 70))
"""


@cache
def prepared_swarm() -> str:
    """The prepared `swarm`, until the tests end: for commands that nobody sends signals to."""
    commands = ExitStack()
    atexit.register(commands.close)
    return str(commands.enter_context(prepared_commands()) / "swarm")


@contextmanager
def prepared_commands() -> Iterator[Path]:
    """A folder for the PATH, in which `swarm ARGUMENTS` and `python < CODE` are these commands."""
    folder = Path(tempfile.mkdtemp(prefix="swarm-c-"))  # a short name, for a socket's path is
    for name in ("swarm", "python"):
        (folder / name).write_text(_CLIENT)
        (folder / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.prepared", str(listener.fileno())], cwd=ROOT, pass_fds=[listener.fileno()]
        )
    try:
        yield folder
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def serve(listener: socket.socket) -> None:
    """Load what commands load, and fork for each that is asked for."""
    from swarm.cli.app import SECTIONS

    for home in {home for section in SECTIONS.values() for home in section.values()}:
        import_module(f"swarm.cli.{home.partition(':')[0]}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        there, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _run(there)
        there.close()


def _run(there: socket.socket) -> None:
    asked, files, _, _ = socket.recv_fds(there, _MOST_BYTES, 3)
    name, arguments, folder, environment = json.loads(asked)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    Thread(target=_end_with, args=(there,), daemon=True).start()
    code = _call(name)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    there.send(str(code).encode())
    os._exit(0)


def _end_with(there: socket.socket) -> None:
    """A shell that kills the command it knows means this one."""
    there.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _call(name: str) -> int:
    try:
        if name == "swarm":
            from swarm.cli import main

            main()
        else:
            sys.path.insert(0, "")
            module: dict[str, Any] = {"__name__": "__main__"}
            exec(compile(sys.stdin.read(), "<page>", "exec"), module)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
