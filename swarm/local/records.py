"""Records of started processes, as files `stack/*.json` of the state folder, written before any wait."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ValidationError

from swarm.core.settings import Settings
from swarm.local.folders import write_whole
from swarm.local.processes import descendants, find_process, session_members
from swarm.local.template import READY_VARIABLE


class ProcessRecord(BaseModel, frozen=True):
    """A worker, Flower, or the hub."""

    kind: Literal["worker", "flower", "hub"]
    id: str
    pid: int
    created: float
    """The process's creation time, in seconds since the epoch."""
    log: Path
    ready_file: Path
    concurrency: int = 0
    base_url: str | None = None
    """Model server that the worker was started with."""
    url: str | None = None
    """Address of Flower or the hub."""
    only_job: str | None = None
    """The only job that the worker serves."""
    job_file: Path | None = None
    """File that names the worker's current job; an empty one means that the worker is kept for the next."""
    fingerprint: str = ""
    """Hash of a worker's environment; only a command with the same one may use a worker with a `job_file`."""
    temporary: bool = False
    """Whether the process ends with the last command that uses it, not with `swarm down`."""

    @property
    def started_at(self) -> datetime:
        """Start time of the process."""
        return datetime.fromtimestamp(self.created, UTC)

    def serves(self, job_id: str | None) -> bool:
        """Whether this is a worker for all jobs, or for this one."""
        return self.kind == "worker" and self.job_file is None and self.only_job in (None, job_id)

    @property
    def kept(self) -> bool:
        """Whether the worker has no job, and waits for the next command's."""
        return self.job_file is not None and not read_job(self.job_file)

    def process(self) -> psutil.Process | None:
        """The living process, or None."""
        return find_process(self.pid, self.created)

    @property
    def ready(self) -> bool:
        """Whether the process lives and has reported that it takes tasks."""
        return self.ready_file.exists() and self.process() is not None

    def family(self) -> set[psutil.Process]:
        """The living process and its descendants, or the orphans of a dead one.

        The caller is never included, because a worker may have started it (to end the worker, say).
        """
        leader = self.process()
        orphans = session_members(self.pid, (READY_VARIABLE, str(self.ready_file)))
        family = orphans if leader is None else {leader, *descendants(leader), *orphans}
        return family - {psutil.Process()}


def read_job(job_file: Path) -> str:
    """The current job of a worker with this job file; empty for none."""
    try:
        return job_file.read_text().strip()
    except OSError:
        return ""


def stack_folder(settings: Settings) -> Path:
    """Path of the folder of records and logs, which need not exist."""
    return settings.state_folder() / "stack"


def ready_file(settings: Settings, record_id: str) -> Path:
    """Path of the file that this process touches when it is ready."""
    return stack_folder(settings) / f"{record_id}.ready"


def save_record(settings: Settings, record: ProcessRecord) -> None:
    """Write the record atomically."""
    write_whole(_path(settings, record), record.model_dump_json(indent=1))


def load_records(settings: Settings) -> list[ProcessRecord]:
    """Read all records, of living and dead processes, oldest first."""
    records = []
    for path in stack_folder(settings).glob("*.json"):
        try:
            records.append(ProcessRecord.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError):
            continue  # removed meanwhile, or not a record
    return sorted(records, key=lambda record: record.created)


def remove_record(settings: Settings, record: ProcessRecord) -> None:
    """Remove the record of an ended process; its log stays."""
    record.ready_file.unlink(missing_ok=True)
    if record.job_file is not None:
        record.job_file.unlink(missing_ok=True)
    _path(settings, record).unlink(missing_ok=True)


def _path(settings: Settings, record: ProcessRecord) -> Path:
    return stack_folder(settings) / f"{record.kind}-{record.id}.json"
