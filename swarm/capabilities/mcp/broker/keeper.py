"""Keep one server process: a program of its own, `python -I -S keeper.py COMMAND…`, between the broker and the server.

The server has this program's descriptors 0 and 1 to itself. Guarantee: when this program has ended, no process that the server started
is left, not even one that made a session of its own; it ends when the server does, and, as the server, when the broker is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SWARM = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

sys.path.insert(0, os.path.join(_SWARM, "tools"))
sys.path.insert(0, os.path.join(_SWARM, "permissions", "sandbox"))
from guard import CommandGuard  # type: ignore[import-not-found]  # noqa: E402
from launcher import become_subreaper, descendants, send_signal  # type: ignore[import-not-found]  # noqa: E402


def start(argv: list[str]) -> int:
    """The server's process id; it is killed with this program."""
    here = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != here:
                os._exit(1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    return pid


def wait_for(pid: int) -> int:
    """Its exit status, as a shell tells it."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def kill_all() -> None:
    """Kill whatever is left below this process."""
    while found := descendants():
        for pid in found:
            send_signal(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main(argv: list[str]) -> None:
    """Start the server, wait for its end, leave nothing behind."""
    become_subreaper()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    broker = os.getppid()
    # What must not be made anew in git folders is there as long as the server may write.
    watch = CommandGuard(
        [word for word in argv[: argv.index("--")] if word.startswith("stub=")] if "--" in argv else []
    )
    watch.begin()
    pid = start(argv)

    def end(*_: object) -> None:
        kill_all()
        watch.end()
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    if os.getppid() != broker:
        end()
    # Only the server has its pipes: their end is told to both sides.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    code = wait_for(pid)
    os.write(2, f"[its process ended with the exit code {code}]\n".encode())
    kill_all()
    watch.end()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
