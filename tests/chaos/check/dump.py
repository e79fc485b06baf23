"""What is left of a job in Redis, taken out as it is: to a file of JSON lines and back. Nothing is refused and nothing interpreted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import redis

Row = tuple[str, dict[str, Any]]
"""An entry's id in its stream, and what it holds."""
_PAGE = 1_000


@dataclass
class History:
    """One agent: its record, its journal, its mailbox."""

    id: str
    record: dict[str, str] = field(default_factory=dict)
    journal: list[Row] = field(default_factory=list)
    """Each entry is the JSON document that was stored."""
    mail: list[Row] = field(default_factory=list)


@dataclass
class Job:
    """One job and its agents."""

    id: str
    record: dict[str, str] = field(default_factory=dict)
    lives: dict[str, History] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    """How much of it is still in the keys that hold only what is under way."""
    effects: list[str] | None = None
    """The lines that its commands have written; None where they were not kept."""


def take(client: redis.Redis, job_id: str, *, prefix: str = "swarm", effects: Sequence[str] | None = None) -> Job:
    """Read one job. The client must decode its answers."""

    def key(*parts: str) -> str:
        return ":".join((prefix, *parts))

    job = Job(job_id, cast(dict[str, str], client.hgetall(key("job", job_id))))
    job.effects = None if effects is None else list(effects)
    for agent_id in cast(list[str], client.zrange(key("job", job_id, "agents"), 0, -1)):
        history = History(agent_id, cast(dict[str, str], client.hgetall(key("agent", agent_id))))
        history.journal = [(at, json.loads(fields["e"])) for at, fields in _rows(client, key("journal", agent_id))]
        history.mail = list(_rows(client, key("mail", agent_id)))
        job.lives[agent_id] = history
    members = [*job.lives, job_id]
    for name in ("leases", "ready", "timers", "deadlines"):
        job.left[name] = sum(score is not None for score in client.zmscore(key(name), members))
    job.left["running"] = int(cast(int, client.scard(key("job", job_id, "running"))))
    job.left["line"] = int(cast(int, client.zcard(key("job", job_id, "line"))))
    job.left["await"] = int(cast(int, client.exists(*(key("await", agent_id) for agent_id in members))))
    for name in ("reserved_tokens", "reserved_cost"):
        job.left[name] = int(job.record.get(name) or 0)
    return job


def take_all(client: redis.Redis, *, prefix: str = "swarm", job_ids: Sequence[str] = ()) -> list[Job]:
    """Read these jobs, or all that are over."""
    known = job_ids or cast(list[str], client.zrange(f"{prefix}:jobs", 0, -1))
    over = [job for job in known if client.hget(f"{prefix}:job:{job}", "state") not in (None, "running")]
    return [take(client, job_id, prefix=prefix) for job_id in (job_ids or over)]


def _rows(client: redis.Redis, key: str) -> Iterator[Row]:
    after = "-"
    while page := cast(list[Row], client.xrange(key, after, "+", count=_PAGE)):
        yield from page
        after = f"({page[-1][0]}"


def write(path: Path, jobs: Iterable[Job]) -> None:
    """Write them to a file, compressed if its name ends with `.gz`."""
    with _open(path, "wt") as file:
        for job in jobs:
            head = {"job": job.id, "record": job.record, "left": job.left, "effects": job.effects}
            file.write(json.dumps(head) + "\n")
            for history in job.lives.values():
                row = {"agent": history.id, "record": history.record, "journal": history.journal, "mail": history.mail}
                file.write(json.dumps(row) + "\n")


def read(path: Path) -> list[Job]:
    """Read such a file. Raises `ValueError` for one that is none."""
    jobs: list[Job] = []
    with _open(path, "rt") as file:
        for number, line in enumerate(file, 1):
            row = json.loads(line)
            if "job" in row:
                jobs.append(Job(row["job"], row["record"], {}, row["left"], row["effects"]))
            elif jobs and "agent" in row:
                journal, mail = ([(at, held) for at, held in row[name]] for name in ("journal", "mail"))
                jobs[-1].lives[row["agent"]] = History(row["agent"], row["record"], journal, mail)
            else:
                raise ValueError(f"{path}: line {number} is neither a job nor an agent of one")
    return jobs


def _open(path: Path, mode: str) -> IO[Any]:
    return gzip.open(path, mode) if path.suffix == ".gz" else path.open(mode)
