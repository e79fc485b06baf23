"""The records of jobs: making and reading them, their documents, and finishing ends of any size."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError, RedisFull, UnknownAgent, UnknownBroker, WebhookRefused
from swarm.core.plain import clean
from swarm.core.records import JOB_FIELDS, JobView, ListedState, read_job
from swarm.store.callbacks import Callbacks
from swarm.store.fields import JobTerms, agent_fields, job_fields
from swarm.store.keyspace import Keyspace, no_job
from swarm.store.prefixes import digest_of
from swarm.store.values import JobPermissions, Signals, Submitted


@dataclass(frozen=True)
class JobNow:
    """A job's current fields, and how many of its agents are at work or wait for a worker."""

    record: dict[str, str | None]
    running: int
    queued: int


@dataclass(frozen=True)
class JobMoment:
    """A consistent view for watchers of a job, read in one round trip."""

    at: float
    """The server's clock."""
    seq: int
    """The job's last sequence number."""
    asked: list[str]
    """The ids of all open questions."""
    job: JobNow | None
    agents: list[dict[str, str | None]]
    """The requested agents, in order."""


class JobStore:
    """The jobs of a swarm."""

    def __init__(self, keyspace: Keyspace, recall: Callable[[str], bool] = lambda job_id: False) -> None:
        self._keyspace, self._recall = keyspace, recall

    def submit(
        self,
        spec: AgentSpec,
        *,
        catalogue: str,
        documents: Mapping[str, str] | None = None,
        packages: Mapping[str, str] | None = None,
        webhook: str = "",
        **terms: Unpack[JobTerms],
    ) -> Submitted:
        """Make the job and its root agent; repeating the same ids changes nothing.

        The `catalogue`, `documents` (by name) and `packages` (by digest) travel with the job. `webhook` is its own address, as JSON. Raises
        `UnknownBroker` for a callback that no worker could publish, and `WebhookRefused` for an address that no worker would deliver to.
        """
        spec = clean(spec)
        given = (
            spec.job_id,
            spec.agent_id,
            json.dumps(job_fields(spec, **terms)),
            json.dumps(agent_fields(spec)),
            "" if spec.limits.timeout_seconds is None else spec.limits.timeout_seconds,
            digest_of(catalogue),
        )
        carried = {name: digest_of(text) for name, text in (documents or {}).items()}
        others = packages or {}
        names = json.dumps({name: [digest, ""] for name, digest in carried.items()})
        answer = self._keyspace.run(
            "submit", *given, "", names, json.dumps([[digest, ""] for digest in others]), webhook
        )
        if answer[0] == "document":
            texts = json.dumps({name: [digest, (documents or {})[name]] for name, digest in carried.items()})
            answer = self._keyspace.run("submit", *given, catalogue, texts, json.dumps(list(others.items())), webhook)
        if answer[0] == "full":
            raise RedisFull(*answer[1:])
        if answer[0] == "broker" and (callback := terms.get("callback")) is not None:
            raise UnknownBroker(callback.broker, Callbacks(self._keyspace).known())
        if answer[0] == "webhook":
            raise WebhookRefused()
        new = answer[0] == "ok"
        return Submitted(new, terms.get("order", "") if new else answer[2], Signals(publish=answer[1]))

    def get(self, job_id: str) -> JobView:
        """The job's record, recalled if it is archived. Raises `UnknownAgent`, and the errors of `Archive.recall`."""
        for found in self.views([job_id]):
            return self.get(job_id) if found.archived and self._recall(job_id) else found
        raise no_job(job_id)

    def find(
        self, count: int, *, state: ListedState | None = None, before: str = "", since: float = 0.0, text: str = ""
    ) -> list[JobView]:
        """The newest matching jobs, newest first: see `Swarm.jobs`."""
        found: list[JobView] = []
        while True:
            job_ids, before = self.part(count - len(found), state=state, before=before, since=since, text=text)
            views = self.views(job_ids)
            # A job can end or expire between the two reads. The index compares only letters of ASCII in any case.
            found += [view for view in views if state in (None, view.state) and view.mentions(text)]
            if not before or len(found) >= count:
                return found

    def part(
        self, count: int, *, state: ListedState | None = None, before: str = "", since: float = 0.0, text: str = ""
    ) -> tuple[list[str], str]:
        """The ids of the newest matching jobs, newest first, including expired ones, and that of the next part, or ''."""
        if before and not _POSITION.fullmatch(before):
            raise ConfigurationError(
                f"{before!r} is no position in the list of jobs; pass the one that a list ended with"
            )
        words = max(_CASED.split(text.lower()), key=len)
        found: list[str] = []
        while True:
            asked = min(count - len(found), _AT_ONCE)
            job_ids, before = self._keyspace.run("list_jobs", state or "", before, since or "-inf", words, asked)
            found += job_ids
            if not before or len(found) >= count:
                return found, before

    def views(self, job_ids: Sequence[str]) -> list[JobView]:
        """The records of those of these jobs that exist; of archived ones, the rows that lists show."""
        records = zip(job_ids, self._keyspace.fetch("job", job_ids, JOB_FIELDS), strict=True)
        return [read_job(job_id, record) for job_id, record in records if record["state"] is not None]

    def ids(self) -> list[str]:
        """The ids of all jobs, newest first, including expired ones; their records would take seconds to read."""
        return list(self._keyspace.client.zrevrange(self._keyspace.key("jobs"), 0, -1))

    def exists(self, job_id: str) -> bool:
        """Whether the job exists."""
        return bool(self._keyspace.client.exists(self._keyspace.key("job", job_id)))

    def permissions(self, job_id: str) -> JobPermissions:
        """The job's current permissions."""
        pipeline = self._keyspace.client.pipeline(transaction=False)
        pipeline.hmget(self._keyspace.key("job", job_id), "rules", "ask_seconds")
        pipeline.lrange(self._keyspace.key("job", job_id, "rules"), 0, -1)
        (rules, seconds), added = pipeline.execute()
        return JobPermissions(rules or "", list(added), float(seconds or 0))

    def catalogue(self, job_id: str) -> str:
        """The job's definitions, as JSON. Raises `UnknownAgent` if the job no longer exists."""
        digest, own = self._keyspace.client.hmget(self._keyspace.key("job", job_id), "definitions", "catalogue")
        found = own or (self.document(digest) if digest else None)
        if found is None:
            raise UnknownAgent(f"job {job_id} has no definitions: its keys have been removed")
        return str(found)

    def document(self, digest: str) -> str | None:
        """The text with that digest, shared by jobs."""
        found = self._keyspace.client.get(self._keyspace.key("document", digest))
        return None if found is None else str(found)

    def carried(self, job_id: str) -> dict[str, str]:
        """The digests of the job's documents besides its definitions, by name."""
        told: dict[str, str] = json.loads(
            self._keyspace.client.hget(self._keyspace.key("job", job_id), "carried") or "{}"
        )
        return told

    def settle(self, job_id: str) -> tuple[bool, Signals]:
        """Continue unfinished endings in the job; returns whether any are left."""
        left, publish, kill = self._keyspace.run("settle", job_id)
        return bool(left), Signals(publish, kill)

    def unsettled(self) -> list[str]:
        """Forget expired jobs and maps; returns some of the jobs with unfinished endings."""
        return list(self._keyspace.run("unsettled"))

    # -- watching ------------------------------------------------------------------------------------------

    def seq(self, job_id: str) -> int:
        """The job's last sequence number."""
        return int(self._keyspace.client.get(self._keyspace.key("job", job_id, "seq")) or 0)

    def now(self, job_ids: Sequence[str], names: Sequence[str]) -> list[JobNow | None]:
        """Some fields of these jobs and their number of agents at work; None for a missing job."""
        pipeline = self._keyspace.client.pipeline(transaction=False)
        for job_id in job_ids:
            self._ask_now(pipeline, job_id, names)
        answers = pipeline.execute()
        return [_read_now(answers[first : first + _ANSWERS], names) for first in range(0, len(answers), _ANSWERS)]

    def moment(self, job_id: str, agent_ids: Sequence[str], *, job: Sequence[str], agent: Sequence[str]) -> JobMoment:
        """The job and some of its agents at one moment; `job` and `agent` name the fields to read."""
        pipeline = self._keyspace.client.pipeline(transaction=False)
        pipeline.time()
        pipeline.get(self._keyspace.key("job", job_id, "seq"))
        pipeline.zrange(self._keyspace.key("questions"), 0, -1)
        self._ask_now(pipeline, job_id, job)
        for agent_id in agent_ids:
            pipeline.hmget(self._keyspace.key("agent", agent_id), agent)
        (seconds, micro), seq, asked, *answers = pipeline.execute()
        agents = [dict(zip(agent, values, strict=True)) for values in answers[_ANSWERS:]]
        return JobMoment(seconds + micro / 1e6, int(seq or 0), asked, _read_now(answers[:_ANSWERS], job), agents)

    def at_work(self, job_id: str, in_line: int) -> list[str]:
        """The agents that are running or called, and the first `in_line` in line."""
        pipeline = self._keyspace.client.pipeline(transaction=False)
        pipeline.smembers(self._keyspace.key("job", job_id, "running"))
        pipeline.smembers(self._keyspace.key("job", job_id, "called"))
        pipeline.zrange(self._keyspace.key("job", job_id, "line"), 0, in_line - 1)
        return sorted({agent_id for found in pipeline.execute() for agent_id in found})

    def _ask_now(self, pipeline: Any, job_id: str, names: Sequence[str]) -> None:
        pipeline.hmget(self._keyspace.key("job", job_id), names)
        pipeline.scard(self._keyspace.key("job", job_id, "running"))
        pipeline.zcard(self._keyspace.key("job", job_id, "line"))
        pipeline.scard(self._keyspace.key("job", job_id, "called"))

    # -- shared by its agents ----------------------------------------------------------------------------------

    def memory(self, job_id: str) -> str:
        """Places of the agents' memory, as JSON; empty if there is none."""
        return self._keyspace.client.hget(self._keyspace.key("job", job_id), "memory") or ""

    def count_search(self, job_id: str) -> int:
        """Count one more web search of the job; returns the total."""
        return int(self._keyspace.client.hincrby(self._keyspace.key("job", job_id), "searches", 1))

    def missing(self, job_ids: Sequence[str]) -> list[str]:
        """The ids that no existing job has."""
        records = self._keyspace.fetch("job", job_ids, ["state"])
        return [job_id for job_id, record in zip(job_ids, records, strict=True) if record["state"] is None]


_POSITION = re.compile(r"[0-9.e+]+:.+")
_CASED = re.compile(r"[^\x00-\x7f]+")
"""Letters whose case the index does not know."""
_AT_ONCE = 1000
_ANSWERS = 4
"""Answers per job in `_ask_now`."""


def _read_now(answers: Sequence[Any], names: Sequence[str]) -> JobNow | None:
    values, running, line, called = answers
    record = dict(zip(names, values, strict=True))
    return None if record["state"] is None else JobNow(record, running, line + called)
