"""Supervise one shell command: a program of its own, `python -I -S launcher.py LIMIT CAP WATCHED GIVEN COMMAND...`.

Descriptor 0 is the lifeline: its other end is held by the process that wants the command, so when that one dies, even
by SIGKILL, the end of file is seen here and everything is killed (only if WATCHED is 1). Descriptor 1 gets one
line of report at the end, and one for each thing that was held; descriptor 2 gets the command's output, at most CAP
bytes. LIMIT is in seconds, 0 for none. GIVEN is a descriptor that the command gets as number 20, or -1: what a shell is to
run comes that way, because the words of a command line can be read by everybody.

Guarantee: when the report is written with `contained=1`, no process that the command started is left, not even one
that made a session of its own: on Linux orphans become children of this process, which ends only when it has none.

A COMMAND that starts with `swarm/permissions/sandbox/enter.py` is not started as the Python program that it is: a
child of this process goes into the sandbox, which saves the second start of Python. What programs outside would obey of
the folders that it may write is looked at when all is over, and held (`swarm/permissions/sandbox/guard.py`).

It imports little, because every command waits for it to start: `signal`, for one, would cost 5 ms.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIGKILL, SIGPIPE, SIGTERM, SIGCONT, SIGSTOP, SIGXFSZ = 9, 13, 15, 18, 19, 25  # of Linux
GRACE_SECONDS = 2.0
KILL_SECONDS = 5.0
DRAIN_SECONDS = 1.0
_PR_SET_CHILD_SUBREAPER = 36
_TICK_MS = 100
_GIVEN = 20
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SANDBOX = os.path.join(_PACKAGE, "permissions", "sandbox")
MAX_PROCESSES = 1000
"""A command that has more is ended: the last line against a fork bomb where the kernel does not count (root)."""


class Command:
    """The command that runs, and what became of it."""

    def __init__(self, argv: list[str], cap: int, given: int) -> None:
        self.exit_code: int | None = None
        self.discarded = 0
        self._room = cap
        self.contained = become_subreaper()
        if given >= 0:
            os.set_inheritable(given, given == _GIVEN)
        null = os.open(os.devnull, os.O_RDWR)
        self.output, end = os.pipe()
        os.set_blocking(self.output, False)
        entering = argv[1:4] == ["-I", "-S", os.path.join(_SANDBOX, "enter.py")] and "--" in argv
        words = argv[4 : argv.index("--")] if entering else []
        self._outer = "outer=1" in words
        self._watch = _import("guard").CommandGuard(words) if any(word.startswith("look=") for word in words) else None
        if self._watch is not None:
            self._watch.begin()
        if entering:
            self.pid = _fork_into_sandbox(argv[4:], null, end, given)
        else:
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, source, fd)
                    for source, fd in ((null, 0), (end, 1), (end, 2), (given, _GIVEN))
                    if source >= 0
                ],
                setsid=True,
                setsigdef=[SIGPIPE, SIGXFSZ],  # Python ignores both, and what is ignored stays so over an exec
            )
        self._tasks_before = _count_tasks()
        for fd in (end, null, *([given] if given >= 0 else [])):
            os.close(fd)

    def pump(self) -> bool:
        """Copy what there is to copy; False at the end of file."""
        while True:
            try:
                data = os.read(self.output, 65_536)
            except BlockingIOError:
                return True
            if not data:
                return False
            kept = data[: self._room]
            self._room -= len(kept)
            self.discarded += len(data) - len(kept)
            while kept:
                try:
                    kept = kept[os.write(2, kept) :]
                except OSError:  # a full disk must not keep the command from ending
                    self.discarded += len(kept)
                    self._room, kept = 0, b""

    def reap(self) -> bool:
        """Collect what has ended; False when no child, own or adopted, is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self.exit_code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def signal_group(self, number: int) -> None:
        """Signal the command's group; not after it was reaped, when its number may be somebody else's."""
        if self.exit_code is None:
            try:
                os.killpg(self.pid, number)
            except OSError:
                pass

    def ask_to_end(self) -> None:
        """SIGTERM to the group. The outer process of a sandbox is spared: its end would be a SIGKILL for the rest."""
        if not self._outer:
            self.signal_group(SIGTERM)
            return
        for pid in descendants():
            if pid != self.pid:
                send_signal(pid, SIGTERM)

    def has_too_many(self) -> bool:
        """Whether it has run away. All tasks of the host are counted first, because that costs nothing."""
        grown = _count_tasks() - self._tasks_before
        if grown > MAX_PROCESSES // 4:
            _take_precedence()  # among thousands of processes that run, this one would hardly get its turn
        if grown <= MAX_PROCESSES:
            return False
        self.signal_group(SIGSTOP)  # it must not grow while it is counted
        if len(descendants()) <= MAX_PROCESSES:
            self.signal_group(SIGCONT)
            return False
        os.write(2, f"ended: more than {MAX_PROCESSES} processes\n".encode())
        return True

    def hold_planted(self) -> list[str]:
        """Undo what must not be changed and could not be kept from it; a line for each thing."""
        try:
            return [] if self._watch is None else list(self._watch.end())
        except Exception as error:
            return [f"the workspace could not be looked through ({error!r})"]

    def kill_everything(self) -> None:
        """Kill the group and all descendants, again and again until none is left."""
        give_up = time.monotonic() + KILL_SECONDS
        self.signal_group(SIGKILL)
        while self.reap():
            for pid in descendants():
                send_signal(pid, SIGKILL)
            if time.monotonic() > give_up:
                self.contained = False
                return
            time.sleep(0.002)

    def drain(self) -> None:
        """Copy what is still in the pipe. Only a process that escaped can hold it open, so not for long."""
        give_up = time.monotonic() + DRAIN_SECONDS
        while self.pump() and time.monotonic() < give_up:
            time.sleep(0.01)


def supervise(command: Command, limit_seconds: float, watched: bool) -> bool:
    """Wait for the command's end, its limit or the lifeline's end; leave nothing running. True if its time was up."""
    poll = select.poll()
    poll.register(command.output, select.POLLIN)
    if watched:
        poll.register(0, select.POLLIN)
    tick = _TICK_MS
    try:
        poll.register(os.pidfd_open(command.pid), select.POLLIN)
    except (AttributeError, OSError):  # macOS, an old kernel
        tick = 20
    deadline = time.monotonic() + limit_seconds if limit_seconds else float("inf")
    timed_out = False
    while command.reap() and command.exit_code is None:
        left_ms = max(0.0, (deadline - time.monotonic()) * 1000) + 1
        for fd, _ in poll.poll(min(tick, left_ms)):
            if fd == command.output and not command.pump():
                poll.unregister(fd)
            elif fd == 0 and watched and not os.read(0, 64):
                command.kill_everything()
                return timed_out
        if time.monotonic() >= deadline:
            if timed_out:
                break
            timed_out, deadline = True, time.monotonic() + GRACE_SECONDS
            command.ask_to_end()
        if command.has_too_many():
            break
    command.kill_everything()
    command.drain()
    return timed_out


def become_subreaper() -> bool:
    """Have orphans among what this process starts become its children; whether that is so from now on."""
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _import(name: str) -> Any:
    sys.path.insert(0, _SANDBOX)
    module = __import__(name)
    del sys.path[0]
    return module


def _fork_into_sandbox(arguments: list[str], null: int, end: int, given: int) -> int:
    enter = _import("enter")  # before the fork, so that a broken installation is an error here
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for source, fd in ((null, 0), (end, 1), (end, 2), (given, _GIVEN)):
                if source >= 0:
                    os.dup2(source, fd)
            enter.main(arguments)
        finally:
            os._exit(enter.CANNOT_ENTER)
    return pid


def _one_line(text: str) -> str:
    """File names may hold line ends."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _take_precedence() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (AttributeError, OSError):
        pass  # not root, whose processes alone the kernel does not count


def _count_tasks() -> int:
    """All tasks of this host; 0 where that is not told."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, IndexError, ValueError):
        return 0


def descendants() -> list[int]:
    """The process ids of all that is below this process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name in parentheses may contain anything, parentheses included.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += below
    return found


def main(arguments: list[str]) -> None:
    """Run the command, then report `exit=N timed_out=0|1 discarded=N contained=0|1`, and `held TEXT` for each thing held."""
    limit, cap, watched, given, *argv = arguments
    try:
        command = Command(argv, int(cap), int(given))
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
        os.write(1, b"exit=127 timed_out=0 discarded=0 contained=1\n")
        return
    timed_out = supervise(command, float(limit), watched == "1")
    held = command.hold_planted()
    code = -SIGKILL if command.exit_code is None else command.exit_code
    report = (
        f"exit={code if code >= 0 else 128 - code} timed_out={timed_out:d} "
        f"discarded={command.discarded} contained={command.contained:d}\n"
    ) + "".join(f"held {_one_line(line)}\n" for line in held)
    try:
        os.write(1, report.encode("utf-8", "surrogateescape"))
    except OSError:
        pass  # nobody is left to read it


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # nothing is left to clean up, and the interpreter would take milliseconds to find that out
