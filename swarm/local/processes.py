"""Processes that outlive the command that started them: starting, recognising and ending them.

A process is identified by its id and creation time, so a process that reuses the id is never signalled.
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

# The creation time is derived from the boot clock, which the system may correct a little.
_SAME_TIME_SECONDS = 2.0
_TAIL_BYTES = 8_192


def spawn_detached(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> psutil.Process:
    """Start a process in its own session, with output appended to `log`; it survives our terminal and us."""
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
    return detach(child)


def detach(child: subprocess.Popen[bytes]) -> psutil.Process:
    """Watch over a child that may outlive us."""
    # Read before the process is reaped, so that one that ends at once can still be identified.
    process = psutil.Process(child.pid)
    # While we live, we must reap this child, or a dead one would look alive.
    threading.Thread(target=child.wait, name=f"collect-{child.pid}", daemon=True).start()
    return process


def find_process(pid: int, created: float) -> psutil.Process | None:
    """Find the living process with this id and creation time, or None."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - created) > _SAME_TIME_SECONDS:
            return None
        return process if is_alive(process) else None
    except psutil.Error:
        return None


def is_alive(process: psutil.Process) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def descendants(process: psutil.Process) -> set[psutil.Process]:
    """All living descendants of this process."""
    try:
        return set(process.children(recursive=True))
    except psutil.Error:
        return set()


def session_members(leader_pid: int, mark: tuple[str, str]) -> set[psutil.Process]:
    """Living processes of a dead leader's session that carry this variable in their environment."""
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
    """Signal a process if its id still belongs to it."""
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


def tail_log(log: Path, *, lines: int = 12) -> str:
    """The last lines of a log, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.strip().splitlines()[-lines:]) or "(its log is empty)"
