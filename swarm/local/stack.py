"""The local stack of one state folder: Redis, workers, Flower and the hub.

Everything runs detached and is found through records on disk, so any later command can inspect or stop it. A lock on its folder
allows one command at a time to change a stack.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.local.folders import hold_lock, make_private_folder, make_state_folder, try_lock
from swarm.local.records import ProcessRecord, load_records, read_job, save_record, stack_folder
from swarm.local.redis_server import RedisStatus, ensure_redis, find_redis, read_redis_status, stop_redis
from swarm.local.workers import (
    NewWorker,
    end_processes,
    find_own_hub,
    listens,
    start_flower,
    start_hub,
    start_worker,
    wait_until_ready,
)
from swarm.store.connection import broker_transport_options, broker_url, ping_server

GRACE_SECONDS = 20.0
"""Seconds that workers may take to reach a turn boundary when the stack stops."""

_FLOWER_GRACE_SECONDS = 5.0
_HUB_GRACE_SECONDS = 15.0
_LOCK_SECONDS = 180.0
_FLEET_ANSWER_SECONDS = 1.0
_KEPT_LOGS = 20


class WorkerStatus(BaseModel, frozen=True, from_attributes=True):
    """A running worker."""

    pid: int
    concurrency: int
    started_at: datetime
    log: Path
    ready: bool
    base_url: str | None
    only_job: str | None = None
    """The only job that the worker serves."""
    temporary: bool
    """Whether the worker was started for one command."""
    kept: bool = False
    """Whether the worker waits for the next command's job."""


class FlowerStatus(BaseModel, frozen=True, from_attributes=True):
    """A running Flower."""

    pid: int
    url: str
    log: Path


class HubStatus(BaseModel, frozen=True, from_attributes=True):
    """A running hub."""

    pid: int
    url: str
    log: Path


class StackStatus(BaseModel, frozen=True):
    """The running parts of the stack."""

    redis: RedisStatus
    workers: list[WorkerStatus]
    flower: FlowerStatus | None
    hub: HubStatus | None = None


def up(
    settings: Settings,
    *,
    workers: int = 1,
    concurrency: int | None = None,
    flower_port: int | None = None,
    base_url: str | None = None,
) -> StackStatus:
    """Start the missing parts of a stack of this size, and return when it takes work.

    Running parts are kept. If a part does not start, the parts started by this call are stopped, and `ConfigurationError` is raised.
    """
    with changing(settings):
        new = NewWorker(concurrency, base_url or settings.base_url)
        start_missing(settings, workers, new, flower_port)
        _keep(settings)
    return status(settings)


def down(settings: Settings, *, keep_redis: bool = False, grace_seconds: float = GRACE_SECONDS) -> None:
    """Stop the stack and return when all of it has ended; does nothing if nothing runs."""
    if not settings.state_folder().is_dir():
        return
    with changing(settings):
        records = load_records(settings)
        _end(settings, records, grace_seconds)
        if not keep_redis:
            _redis_mark(settings).unlink(missing_ok=True)
            stop_redis(settings)


def status(settings: Settings) -> StackStatus:
    """Report the running parts, checked against the system; changes nothing."""
    workers, flower, hub = [], None, None
    for record in load_records(settings):
        if record.process() is None:
            continue
        if record.kind == "flower":
            flower = FlowerStatus.model_validate(record)
        elif record.kind == "hub":
            hub = HubStatus.model_validate(record)
        else:
            worker = WorkerStatus.model_validate(record)
            if record.job_file is not None:
                worker = worker.model_copy(update={"only_job": read_job(record.job_file)})
            workers.append(worker)
    return StackStatus(redis=read_redis_status(settings), workers=workers, flower=flower, hub=hub)


def running(settings: Settings) -> bool:
    """Whether this state folder's stack takes work: its Redis answers and one of its workers is ready."""
    return bool(_ready_workers(settings)) and read_redis_status(settings).running


def has_worker(settings: Settings) -> bool:
    """Whether a worker of this stack, or any worker on the configured Redis, would run an agent."""
    return bool(_ready_workers(settings)) or _fleet_answers(settings)


@contextlib.contextmanager
def temporary_stack(
    settings: Settings,
    *,
    workers: int = 1,
    concurrency: int | None = None,
    base_url: str | None = None,
    only_job: str | None = None,
) -> Iterator[StackStatus]:
    """Provide a stack for one command: start the missing parts, and stop only those at the end.

    Concurrent commands share it; the last one stops it, however the others ended. `up` meanwhile makes it permanent. With `only_job`, a new
    worker takes that job alone.
    """
    base_url = base_url or settings.base_url
    with hold_stack(settings) as use:
        try:
            with changing(settings):
                if _fleet_answers(settings) and not _ready_workers(settings):
                    _refuse_fleet(settings, base_url)
                else:
                    start_missing(
                        settings, workers, NewWorker(concurrency, base_url, temporary=True, only_job=only_job)
                    )
            yield status(settings)
        finally:
            with changing(settings):
                if try_lock(use, fcntl.LOCK_EX):
                    stop_temporary(settings)
                elif only_job is not None:
                    # The stack stays for others, but only this job can use its worker.
                    own = [record for record in load_records(settings) if record.only_job == only_job]
                    _end(settings, own, GRACE_SECONDS)


@contextlib.contextmanager
def hold_stack(settings: Settings) -> Iterator[int]:
    """Register as a user of the stack; yields the shared lock, which the last user can make exclusive."""
    with changing(settings):
        # Users share the lock; the system releases it when a user is killed.
        use = os.open(stack_folder(settings) / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try_lock(use, fcntl.LOCK_SH)
    try:
        yield use
    finally:
        os.close(use)


# -- starting ----------------------------------------------------------------------------------------------


def start_missing(
    settings: Settings, workers: int, new: NewWorker, flower_port: int | None = None
) -> list[ProcessRecord]:
    """Start missing workers like the new one, up to `workers`, with Redis, the hub and Flower; returns them, ready."""
    dead = [record for record in load_records(settings) if record.process() is None]
    end_processes(settings, dead, grace_seconds=0.0)  # a killed worker may have left its children
    present = load_records(settings)
    running_workers = [record for record in present if record.serves(new.only_job)]
    _refuse_other_server(running_workers, new.base_url)
    started: list[ProcessRecord] = []
    had_redis = settings.redis_url is not None or find_redis(settings) is not None
    own_hub = find_own_hub(settings)
    try:
        if new.temporary and not had_redis:
            _redis_mark(settings).touch()
        ping_server(ensure_redis(settings))
        # Started before the workers, which need it; an already running one is used.
        if own_hub is not None and not listens(own_hub):
            started.append(start_hub(settings, own_hub, temporary=new.temporary))
        for _ in range(workers - len(running_workers)):
            started.append(start_worker(settings, new))
        if flower_port is not None and not any(record.kind == "flower" for record in present):
            started.append(start_flower(settings, port=flower_port))
        # Includes processes of a command that ended before they were ready.
        wait_until_ready([*running_workers, *started])
        return started
    except BaseException:
        end_processes(settings, started, grace_seconds=1.0)
        if not had_redis:
            _redis_mark(settings).unlink(missing_ok=True)
            stop_redis(settings)
        raise


def _refuse_other_server(workers: Sequence[ProcessRecord], base_url: str | None) -> None:
    for record in workers:
        if record.base_url != base_url:
            raise ConfigurationError(
                f"a worker (process {record.pid}) already runs and calls the model at "
                f"{record.base_url or 'its provider'}, not at {base_url or 'its provider'}. "
                "Stop it with `swarm down` first, or use another SWARM_STATE_DIR."
            )


def _refuse_fleet(settings: Settings, base_url: str | None) -> None:
    if base_url is not None and base_url != settings.base_url:
        raise ConfigurationError(
            f"workers of a fleet answer on the Redis that is set, and they do not call the model at {base_url}. "
            "Unset SWARM_REDIS_URL to use workers of your own."
        )


def _keep(settings: Settings) -> None:
    _redis_mark(settings).unlink(missing_ok=True)
    for record in load_records(settings):
        # A worker for one job ends with that job.
        if record.temporary and record.only_job is None and record.job_file is None:
            save_record(settings, record.model_copy(update={"temporary": False}))


# -- stopping ----------------------------------------------------------------------------------------------


def _end(settings: Settings, records: Sequence[ProcessRecord], grace_seconds: float) -> None:
    # End Flower after the workers, so that it shows their end, and the hub, so that they can push; Redis comes last.
    for kind, patience in (("worker", grace_seconds), ("flower", _FLOWER_GRACE_SECONDS), ("hub", _HUB_GRACE_SECONDS)):
        end_processes(settings, [record for record in records if record.kind == kind], grace_seconds=patience)
    _prune_logs(settings)


def stop_temporary(settings: Settings) -> None:
    """Stop the commands' temporary processes after the last command, except those kept for the next one."""
    records = [record for record in load_records(settings) if record.temporary]
    _end(settings, [record for record in records if not record.kept], GRACE_SECONDS)
    if any(record.kept and record.process() is not None for record in records):
        # Kept workers need Redis.
        return
    if _redis_mark(settings).exists():
        stop_redis(settings)
        _redis_mark(settings).unlink(missing_ok=True)


def _prune_logs(settings: Settings) -> None:
    logs = sorted(stack_folder(settings).glob("*.log"), key=lambda path: path.stat().st_mtime)
    for path in logs[:-_KEPT_LOGS]:
        path.unlink(missing_ok=True)


# -- asking ------------------------------------------------------------------------------------------------


def _ready_workers(settings: Settings) -> list[ProcessRecord]:
    """Ready workers that take any job."""
    records = [record for record in load_records(settings) if record.kind == "worker"]
    return [record for record in records if record.only_job is None and record.job_file is None and record.ready]


def _fleet_answers(settings: Settings) -> bool:
    """Whether any worker serves our queue on a configured Redis; takes a second if none does."""
    from kombu import Connection  # only needed for a configured Redis

    from swarm.store.broadcasts import PrefixedMailbox

    if settings.redis_url is None:
        return False
    ping_server(settings)
    url, options = broker_url(settings.redis_url), broker_transport_options(settings.redis_url)
    with Connection(url, transport_options=options) as connection:
        workers = PrefixedMailbox(settings.key_prefix, type="fanout", accept=["json"])(connection)
        return bool(workers.multi_call("ping", timeout=_FLEET_ANSWER_SECONDS, limit=1))


@contextlib.contextmanager
def changing(settings: Settings) -> Iterator[None]:
    """Allow only this command to change the stack during the block."""
    make_state_folder(settings)
    folder = make_private_folder(stack_folder(settings))
    with hold_lock(folder / "lock", deadline_seconds=_LOCK_SECONDS):
        yield


def _redis_mark(settings: Settings) -> Path:
    """Path of the file that marks the local Redis as temporary, for the commands that use it."""
    return stack_folder(settings) / "temporary-redis"
