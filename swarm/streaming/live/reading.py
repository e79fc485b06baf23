"""Reading snapshots and patches from the store: what everything that shows a job live is fed by.

A patch reads the agents that its events name, and nothing else of the tree, so watching a thousand agents costs what they do, not what
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swarm.agent.needs import Has, Needs, find_common_lack
from swarm.core.errors import UnknownAgent
from swarm.core.records import Event, read_event
from swarm.mailbox import Message
from swarm.store.agents import Store
from swarm.store.questions import Question, Questions
from swarm.streaming.live.rows import AGENT_FIELDS, JOB_FIELDS, Row, agent_row, job_row
from swarm.streaming.live.state import Patch, Snapshot, fold, touched

_PAGE = 200
"""Records fetched at a time: others are served in between."""
_LOOKED_AT_IN_LINE = 20
_ANSWERS_OF_JOB = 4
_ASKING = frozenset({"question", "answered"})


class Reader:
    """Reads what people watch. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store, self._questions = store, Questions(store)

    def snapshot(self, job_id: str) -> Snapshot:
        """The job as it stands now. Raises `UnknownAgent`."""
        # The cursor first: what happens meanwhile is told twice, never missed.
        cursor = self.last_event(job_id)
        agents = self.agents(self._store.agent_ids([job_id]))
        questions = self._questions.open(job_id)
        job = self._jobs([job_id], questions).get(job_id)
        if job is None:
            raise UnknownAgent(f"no job {job_id}; `swarm jobs` lists those that exist")
        return Snapshot(job_id, cursor, self.last_seq(job_id), job, agents, questions)

    def patch(self, job_id: str, after: Snapshot | Patch, events: Sequence[Event], *, at_work: bool = False) -> Patch:
        """What these events, the next ones, have changed. `at_work` also reads those anew who run or are about to: their activity
        and why nobody serves them change without an event. Raises `UnknownAgent` for a job that has expired."""
        ids = touched(events)
        if at_work:
            ids = list(dict.fromkeys([*ids, *self._at_work(job_id)]))
        pipeline = self._store.client.pipeline(transaction=False)
        pipeline.time()
        pipeline.get(self._store.key("job", job_id, "seq"))
        pipeline.zrange(self._store.key("questions"), 0, -1)
        self._ask_job(pipeline, job_id)
        self._ask_agents(pipeline, ids)
        (seconds, micro), seq, asked, *answers = pipeline.execute()
        questions = self._questions.load_open(asked, job_id)
        job = _read_job(job_id, answers[:_ANSWERS_OF_JOB], questions)
        if job is None:
            raise UnknownAgent(f"job {job_id} has expired")
        return Patch(
            events=events[-1].id if events else after.events,
            seq=int(seq or 0),
            at=seconds + micro / 1e6,
            job=job,
            agents=self._read_agents(ids, answers[_ANSWERS_OF_JOB:]),
            questions=questions if any(event.kind in _ASKING for event in events) else None,
            happened=events,
        )

    def jobs(self, job_ids: Sequence[str]) -> dict[str, Row]:
        """The rows of those of these jobs that exist, in their order."""
        return self._jobs(job_ids, self._questions.open())

    def agents(self, agent_ids: Sequence[str]) -> dict[str, Row]:
        """The rows of those of these agents that exist, in their order."""
        answers: list[list[str | None]] = []
        for first in range(0, len(agent_ids), _PAGE):
            pipeline = self._store.client.pipeline(transaction=False)
            self._ask_agents(pipeline, agent_ids[first : first + _PAGE])
            answers += pipeline.execute()
        return self._read_agents(agent_ids, answers)

    def agents_of(self, job_id: str) -> list[Row]:
        """The rows of a job's agents, parents before their children; none if it has expired."""
        return list(self.agents(self._store.agent_ids([job_id])).values())

    def events(self, job_id: str, after: str, count: int = 500) -> list[Event]:
        """The job's first events after that one."""
        found = self._store.client.xrange(self._store.key("events", job_id), f"({after}", "+", count=count)
        return [read_event(entry_id, fields) for entry_id, fields in found]

    def messages(self, events: Sequence[Event], job_id: str) -> list[Message]:
        """The messages to the job's person that these events tell of."""
        ids = [event.fields["id"] for event in events if event.kind == "message" and event.fields.get("to") == "user"]
        return [message for each in ids if (message := self._store.message(job_id, each)) is not None]

    def last_event(self, job_id: str) -> str:
        """The cursor of the last event there is."""
        found = self._store.client.xrevrange(self._store.key("events", job_id), count=1)
        return found[0][0] if found else "0-0"

    def last_seq(self, job_id: str) -> int:
        """The last number that the job has given."""
        return int(self._store.client.get(self._store.key("job", job_id, "seq")) or 0)

    def _jobs(self, job_ids: Sequence[str], questions: Sequence[Question]) -> dict[str, Row]:
        pipeline = self._store.client.pipeline(transaction=False)
        for job_id in job_ids:
            self._ask_job(pipeline, job_id)
        answers = pipeline.execute() if job_ids else []
        rows = {}
        for number, job_id in enumerate(job_ids):
            first = number * _ANSWERS_OF_JOB
            row = _read_job(job_id, answers[first : first + _ANSWERS_OF_JOB], questions)
            if row is not None:
                rows[job_id] = row
        return rows

    def _ask_job(self, pipeline: Any, job_id: str) -> None:
        key = self._store.key
        pipeline.hmget(key("job", job_id), JOB_FIELDS)
        pipeline.scard(key("job", job_id, "running"))
        pipeline.zcard(key("job", job_id, "line"))
        pipeline.scard(key("job", job_id, "called"))

    def _ask_agents(self, pipeline: Any, agent_ids: Sequence[str]) -> None:
        for agent_id in agent_ids:
            pipeline.hmget(self._store.key("agent", agent_id), AGENT_FIELDS)

    def _read_agents(self, agent_ids: Sequence[str], answers: Sequence[Sequence[str | None]]) -> dict[str, Row]:
        records = {
            agent_id: dict(zip(AGENT_FIELDS, values, strict=True))
            for agent_id, values in zip(agent_ids, answers, strict=True)
        }
        found = {agent_id: record for agent_id, record in records.items() if record["state"] is not None}
        lacks = self._find_lacks(record for record in found.values() if record["state"] == "queued")
        return {
            agent_id: agent_row(agent_id, record, lacks.get(record["needs"] or "{}", ""))
            for agent_id, record in found.items()
        }

    def _at_work(self, job_id: str) -> list[str]:
        key, pipeline = self._store.key, self._store.client.pipeline(transaction=False)
        pipeline.smembers(key("job", job_id, "running"))
        pipeline.smembers(key("job", job_id, "called"))
        pipeline.zrange(key("job", job_id, "line"), 0, _LOOKED_AT_IN_LINE - 1)
        return sorted({agent_id for found in pipeline.execute() for agent_id in found})

    def _find_lacks(self, queued: Iterable[Mapping[str, str | None]]) -> dict[str, str]:
        """By what they need, why nobody can serve those that wait."""
        wanted = {record["needs"] or "{}" for record in queued}
        if not wanted:
            return {}
        workers = [Has.model_validate_json(has) for has in self._store.workers().values()]
        return {needs: find_common_lack(Needs.model_validate_json(needs), workers) for needs in wanted}


class WatchedJob:
    """A job for somebody who watches it: read in whole once, and then what has changed."""

    def __init__(self, store: Store, job_id: str) -> None:
        self._reader, self._job_id = Reader(store), job_id
        self._now: Snapshot | None = None

    @property
    def agents(self) -> list[Row]:
        """The rows of its agents when it was looked at last, parents before their children."""
        return [] if self._now is None else list(self._now.agents.values())

    def look(self, events: Sequence[Event] | None = None) -> Snapshot:
        """As it stands now; `events` are those that have come, if the caller has them. Raises `UnknownAgent`."""
        if self._now is None:
            self._now = self._reader.snapshot(self._job_id)
        else:
            came = self._reader.events(self._job_id, self._now.events) if events is None else events
            self._now = fold(self._now, self._reader.patch(self._job_id, self._now, came, at_work=True))
        return self._now


def _read_job(job_id: str, answers: Sequence[Any], questions: Sequence[Question]) -> Row | None:
    """The row of a job, from what `_ask_job` was answered; None if it does not exist."""
    values, running, line, called = answers
    record = dict(zip(JOB_FIELDS, values, strict=True))
    if record["state"] is None:
        return None
    asked = sum(question.job_id == job_id and not question.to for question in questions)
    return job_row(job_id, record, running=running, queued=line + called, questions=asked)
