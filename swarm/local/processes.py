"""Processes that outlive the command that started them: starting, recognising and ending them.

A process is known by its id and its time of creation, so an id that the system has given to another process is
never signalled.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

# The time of creation is derived from the clock of boot, which the system may correct a little.
_SAME_TIME_SECONDS = 2.0
_TAIL_BYTES = 8_192


def spawn_detached(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> psutil.Process:
    """Start a process in a session of its own, its output appended to `log`; it survives us and our terminal."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        child = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    # Before it can be collected: one that ends at once is still there to be named.
    process = psutil.Process(child.pid)
    # While we live we are its parent: somebody has to collect it, or a dead child would look like a living one.
    threading.Thread(target=child.wait, name=f"collect-{child.pid}", daemon=True).start()
    return process


def find_process(pid: int, created: float) -> psutil.Process | None:
    """The living process with this id that was created at this time, or None."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - created) > _SAME_TIME_SECONDS:
            return None
        return process if is_alive(process) else None
    except psutil.Error:
        return None


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; a dead one that nobody has collected does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def descendants(process: psutil.Process) -> set[psutil.Process]:
    """All living processes below this one, now."""
    try:
        return set(process.children(recursive=True))
    except psutil.Error:
        return set()


def session_members(leader_pid: int, mark: tuple[str, str]) -> set[psutil.Process]:
    """What a dead leader left behind: processes of its session that carry this variable in their environment."""
    name, value = mark
    members = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            in_session = process.pid != leader_pid and os.getsid(process.pid) == leader_pid
            if in_session and process.environ().get(name) == value:
                members.add(process)
    return members


def wait_for_exit(processes: Iterable[psutil.Process], *, deadline_seconds: float) -> bool:
    """Wait until all have ended; False if some still run at the deadline."""
    give_up = time.monotonic() + deadline_seconds
    waiting = [process for process in processes if is_alive(process)]
    while waiting and time.monotonic() < give_up:
        time.sleep(0.02)
        waiting = [process for process in waiting if is_alive(process)]
    return not waiting


def send_signal(process: psutil.Process, number: int) -> None:
    """Signal it if it still is the process that we mean."""
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


def tail_log(log: Path, *, lines: int = 12) -> str:
    """The last lines of a log, to be quoted in an error."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.strip().splitlines()[-lines:]) or "(its log is empty)"
