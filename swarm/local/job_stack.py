"""The stack of one command's job, which is kept for a while for the next command.

A worker started this way serves the job that a file names. Once that job has ended, the file is emptied and the worker is kept. The next
command with exactly the same settings and environment (keys, proxies, code versions) writes its own job into the file. No other job is
served, and no command with another key. After `SWARM_KEEP_SECONDS` without use, `python -m swarm.local.job_stack`, started by the worker
itself, ends the stack; `swarm down` ends it at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm.core.settings import Settings, load_settings
from swarm.local.folders import try_lock, write_whole
from swarm.local.processes import send_signal, spawn_detached, wait_for_exit
from swarm.local.records import ProcessRecord, load_records, read_job, remove_record, stack_folder
from swarm.local.stack import StackStatus, changing, hold_stack, start_missing, status, stop_temporary, temporary_stack
from swarm.local.workers import NewWorker, default_concurrency, end_processes
from swarm.models.connection import find_credentials

_VOLATILE = ("_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES")
"""Variables that differ between two commands of one shell, and do not matter to a worker."""
_KILL_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 10.0


@dataclass
class JobStack:
    """Processes that run one job on this machine."""

    status: StackStatus
    keep: bool = False
    """Set after the job has ended, so that the stack stays up for the next one."""
    newly_kept: bool = False
    """Whether the stack is kept now, and was not before."""


@contextlib.contextmanager
def job_stack(settings: Settings, job_id: str, *, concurrency: int | None) -> Iterator[JobStack]:
    """Provide a stack that serves the job: an answering fleet, a running stack, a kept worker, or a new one.

    Processes started for it are stopped at the end, unless they are to be kept.
    """
    if settings.redis_url is not None or not settings.keep_seconds:
        with temporary_stack(settings, concurrency=concurrency, only_job=job_id) as found:
            yield JobStack(found)
        return
    with hold_stack(settings) as use:
        with changing(settings):
            own, reused = _take_worker(settings, job_id, concurrency)
        stack = JobStack(status(settings))
        try:
            yield stack
        finally:
            with changing(settings):
                if own is not None:
                    stack.newly_kept = _give_back(settings, own, keep=stack.keep) and not reused
                if try_lock(use, fcntl.LOCK_EX):
                    stop_temporary(settings)


def _take_worker(settings: Settings, job_id: str, concurrency: int | None) -> tuple[ProcessRecord | None, bool]:
    """Take a worker for this job alone (None if a running one serves it); also returns whether it was kept."""
    size, fingerprint = concurrency or default_concurrency(), describe_environment(settings)
    for record in load_records(settings):
        if not record.kept:
            continue
        if record.fingerprint == fingerprint and record.concurrency == size and record.ready:
            assert record.job_file is not None
            write_whole(record.job_file, job_id)
            return record, True
        _end_kept(settings, record)
    job_file = stack_folder(settings) / f"{uuid.uuid4().hex[:8]}.job"
    write_whole(job_file, job_id)
    new = NewWorker(concurrency, settings.base_url, temporary=True, job_file=job_file, fingerprint=fingerprint)
    started = start_missing(settings, 1, new)
    own = next((record for record in started if record.job_file == job_file), None)
    if own is None:
        job_file.unlink(missing_ok=True)
    return own, False


def _give_back(settings: Settings, own: ProcessRecord, *, keep: bool) -> bool:
    """Keep the worker for the next command, or end it; returns whether it is kept. One of each kind is enough."""
    assert own.job_file is not None
    others = [record for record in load_records(settings) if record.kept and record.fingerprint == own.fingerprint]
    if keep and own.process() is not None and not others:
        write_whole(own.job_file, "")
        return True
    end_processes(settings, [own], grace_seconds=20.0)
    return False


def _end_kept(settings: Settings, record: ProcessRecord) -> None:
    """End an idle worker, which has nothing to hand over."""
    family = record.family()
    for process in family:
        send_signal(process, signal.SIGKILL)
    wait_for_exit(family, deadline_seconds=_KILL_SECONDS)
    remove_record(settings, record)


def describe_environment(settings: Settings) -> str:
    """Hash everything a worker inherits from its command: settings, variables, credentials, code."""
    variables = sorted((name, value) for name, value in os.environ.items() if name not in _VOLATILE)
    found = find_credentials(settings) or ""
    package = Path(__file__).resolve().parents[1]
    parts = [
        settings.model_dump_json(exclude={"only_job", "job_file"}),
        sys.executable,
        variables,
        found,
        _stamps(Path(found), "*") if os.path.isabs(found) else [],
        [_stamps(folder.resolve(), "*.py") for folder in (package, package / "tasks", package / "mailbox")],
    ]
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _stamps(folder: Path, pattern: str) -> list[tuple[str, int]]:
    found = []
    for path in sorted(folder.rglob(pattern)):
        with contextlib.suppress(OSError):
            found.append((str(path), path.stat().st_mtime_ns))
    return found


# -- shutting down -----------------------------------------------------------------------------------------


class Keeper:
    """Watches a worker with a job file, for a new job and for a long time without use."""

    def __init__(self, settings: Settings, on_change: Callable[[], None]) -> None:
        assert settings.job_file is not None
        self._file, self._settings, self._on_change = settings.job_file, settings, on_change
        self._job = read_job(self._file)
        self._asked_at = 0.0

    def __call__(self) -> None:
        """Check the job file and the idle time."""
        job = read_job(self._file)
        if job != self._job:
            self._job = job
            self._on_change()
        try:
            idle = 0.0 if job else time.time() - self._file.stat().st_mtime
        except FileNotFoundError:
            # The stack no longer has a record of this worker.
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if idle > self._settings.keep_seconds and time.monotonic() - self._asked_at > _ASK_AGAIN_SECONDS:
            self._asked_at = time.monotonic()
            self._ask_for_the_end()

    def _ask_for_the_end(self) -> None:
        state = self._settings.state_folder()
        # The worker got its Redis address from the stack; the process that ends the stack must know that Redis is the stack's own.
        kept = {name: value for name, value in os.environ.items() if name not in ("SWARM_REDIS_URL", "SWARM_JOB_FILE")}
        argv = [sys.executable, "-m", "swarm.local.job_stack"]
        spawn_detached(argv, env=kept, cwd=state, log=stack_folder(self._settings) / "keeping.log")


def end_unused(settings: Settings) -> None:
    """End the workers that were kept long enough, and the processes that only they used."""
    with hold_stack(settings) as use, changing(settings):
        for record in load_records(settings):
            if record.kept and record.job_file is not None:
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - record.job_file.stat().st_mtime < settings.keep_seconds:
                        continue
                _end_kept(settings, record)
        if try_lock(use, fcntl.LOCK_EX):
            stop_temporary(settings)


if __name__ == "__main__":
    end_unused(load_settings())
