"""What was started, as files `stack/*.json` of the state folder, written before anything is waited for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ValidationError

from swarm.core.settings import Settings
from swarm.local.folders import write_whole
from swarm.local.processes import descendants, find_process, session_members

READY_VARIABLE = "SWARM_READY_FILE"
"""Names the file that a worker touches once it takes tasks. Unique to each process of the stack, so also its mark."""


class ProcessRecord(BaseModel, frozen=True):
    """One worker, Flower, or the hub."""

    kind: Literal["worker", "flower", "hub"]
    id: str
    pid: int
    created: float
    """The process's time of creation, in seconds since the epoch."""
    log: Path
    ready_file: Path
    concurrency: int = 0
    base_url: str | None = None
    """Model server that it was started for (workers)."""
    url: str | None = None
    """Where it is reached (Flower, the hub)."""
    only_job: str | None = None
    """The one job that it is for (workers)."""
    job_file: Path | None = None
    """What names the job that it is for now; nothing in it: it is kept for the next one (workers)."""
    fingerprint: str = ""
    """What it was started with; only who has the same may use it (workers with a `job_file`)."""
    temporary: bool = False
    """It ends with the last command that uses it, instead of with `swarm down`."""

    @property
    def started_at(self) -> datetime:
        """When it was started."""
        return datetime.fromtimestamp(self.created, UTC)

    def serves(self, job_id: str | None) -> bool:
        """Whether it is a worker for all jobs, or for this one."""
        return self.kind == "worker" and self.job_file is None and self.only_job in (None, job_id)

    @property
    def kept(self) -> bool:
        """Whether it has no job, and waits for the next command's."""
        return self.job_file is not None and not read_job(self.job_file)

    def process(self) -> psutil.Process | None:
        """Its living process, or None."""
        return find_process(self.pid, self.created)

    @property
    def ready(self) -> bool:
        """Whether it lives and has said that it takes tasks."""
        return self.ready_file.exists() and self.process() is not None

    def family(self) -> set[psutil.Process]:
        """Every living process of it: itself and its descendants, or the orphans that it left when it died.

        Never the caller, which a worker may have started (to end it, say).
        """
        leader = self.process()
        orphans = session_members(self.pid, (READY_VARIABLE, str(self.ready_file)))
        family = orphans if leader is None else {leader, *descendants(leader), *orphans}
        return family - {psutil.Process()}


def read_job(job_file: Path) -> str:
    """The job that a worker is there for now; empty for none."""
    try:
        return job_file.read_text().strip()
    except OSError:
        return ""


def stack_folder(settings: Settings) -> Path:
    """The folder of the records and logs; it need not exist."""
    return settings.state_folder() / "stack"


def ready_file(settings: Settings, record_id: str) -> Path:
    """The file that this process touches when it is ready."""
    return stack_folder(settings) / f"{record_id}.ready"


def save_record(settings: Settings, record: ProcessRecord) -> None:
    """Write the record, whole."""
    write_whole(_path(settings, record), record.model_dump_json(indent=1))


def load_records(settings: Settings) -> list[ProcessRecord]:
    """All records, of living and dead processes, the oldest first."""
    records = []
    for path in stack_folder(settings).glob("*.json"):
        try:
            records.append(ProcessRecord.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError):
            continue  # removed meanwhile, or not one of ours
    return sorted(records, key=lambda record: record.created)


def remove_record(settings: Settings, record: ProcessRecord) -> None:
    """Forget a process that has ended; its log stays."""
    record.ready_file.unlink(missing_ok=True)
    if record.job_file is not None:
        record.job_file.unlink(missing_ok=True)
    _path(settings, record).unlink(missing_ok=True)


def _path(settings: Settings, record: ProcessRecord) -> Path:
    return stack_folder(settings) / f"{record.kind}-{record.id}.json"
