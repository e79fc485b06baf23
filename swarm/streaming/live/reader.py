"""Read snapshots and patches from the store, for every live view of a job.

A patch reads only the agents that its events name. So the cost of watching a thousand agents depends on their activity, not on
their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from swarm.agent.needs import Has, Needs, find_common_lack
from swarm.core.errors import UnknownAgent
from swarm.core.records import Event, read_event
from swarm.mailbox import Message
from swarm.store.jobs import JobNow
from swarm.store.questions import Question
from swarm.store.store import Store
from swarm.streaming.live.rows import AGENT_FIELDS, JOB_FIELDS, Row, agent_row, job_row
from swarm.streaming.live.state import LiveSnapshot, Patch, fold, touched

_LOOKED_AT_IN_LINE = 20
_ASKING = frozenset({"question", "answered"})


class LiveReader:
    """Reads jobs for watchers. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store, self._questions = store, store.questions

    def snapshot(self, job_id: str, count: int | None = None) -> LiveSnapshot:
        """Read the job's current state, with its first `count` agents or all. Raises `UnknownAgent`."""
        self._store.archive.recall(job_id)
        # The cursor first: a concurrent event is reported twice, never missed.
        cursor = self.last_event(job_id)
        agents, left = self.part(job_id, 0, count)
        questions = self._questions.open(job_id)
        job = self._jobs([job_id], questions).get(job_id)
        if job is None:
            raise UnknownAgent(f"no job {job_id}; `swarm jobs` lists the existing jobs")
        return LiveSnapshot(job_id, cursor, self._store.jobs.seq(job_id), job, agents, questions, left)

    def part(self, job_id: str, after: int, count: int | None) -> tuple[dict[str, Row], int]:
        """Read the job's next `count` agents after the first `after`, or all of them; also returns how many come later."""
        ids = self._store.agents.ids([job_id])[after:]
        found = ids[:count]
        return self.agents(found), len(ids) - len(found)

    def patch(
        self, job_id: str, after: LiveSnapshot | Patch, events: Sequence[Event], *, at_work: bool = False
    ) -> Patch:
        """Read the changes of these next events. `at_work` also reads running and queued agents again: their activity, and why no
        worker takes them, change without an event. Raises `UnknownAgent` if the job has expired."""
        ids = touched(events)
        if at_work:
            ids = list(dict.fromkeys([*ids, *self._store.jobs.at_work(job_id, _LOOKED_AT_IN_LINE)]))
        moment = self._store.jobs.moment(job_id, ids, job=JOB_FIELDS, agent=AGENT_FIELDS)
        questions = self._questions.load_open(moment.asked, job_id)
        job = _row_of(job_id, moment.job, questions)
        if job is None:
            raise UnknownAgent(f"job {job_id} has expired")
        return Patch(
            events=events[-1].id if events else after.events,
            seq=moment.seq,
            at=moment.at,
            job=job,
            agents=self._rows(ids, moment.agents),
            questions=questions if any(event.kind in _ASKING for event in events) else None,
            happened=events,
        )

    def jobs(self, job_ids: Sequence[str]) -> dict[str, Row]:
        """Read the rows of the existing ones of these jobs, in their order."""
        return self._jobs(job_ids, self._questions.open())

    def agents(self, agent_ids: Sequence[str]) -> dict[str, Row]:
        """Read the rows of the existing ones of these agents, in their order."""
        return self._rows(agent_ids, self._store.agents.records(agent_ids, AGENT_FIELDS))

    def agents_of(self, job_id: str) -> list[Row]:
        """Read the rows of a job's agents, parents before their children; none if it has expired."""
        return list(self.agents(self._store.agents.ids([job_id])).values())

    def events(self, job_id: str, after: str, count: int = 500) -> list[Event]:
        """Read the job's first events after the cursor `after`."""
        found = self._store.streams.after(("events", job_id), after, count)
        return [read_event(entry_id, fields) for entry_id, fields in found]

    def messages(self, events: Sequence[Event], job_id: str) -> list[Message]:
        """Read the messages to the job's person that these events name."""
        ids = [event.fields["id"] for event in events if event.kind == "message" and event.fields.get("to") == "user"]
        return [message for each in ids if (message := self._store.mail.get(job_id, each)) is not None]

    def last_event(self, job_id: str) -> str:
        """Return the cursor of the job's last event."""
        return self._store.streams.last(("events", job_id))

    def _jobs(self, job_ids: Sequence[str], questions: Sequence[Question]) -> dict[str, Row]:
        found = zip(job_ids, self._store.jobs.now(job_ids, JOB_FIELDS), strict=True)
        rows = {job_id: _row_of(job_id, now, questions) for job_id, now in found}
        return {job_id: row for job_id, row in rows.items() if row is not None}

    def _rows(self, agent_ids: Sequence[str], records: Iterable[dict[str, str | None]]) -> dict[str, Row]:
        found = {
            agent_id: record for agent_id, record in zip(agent_ids, records, strict=True) if record["state"] is not None
        }
        lacks = self._find_lacks(record for record in found.values() if record["state"] == "queued")
        return {
            agent_id: agent_row(agent_id, record, lacks.get(record["needs"] or "{}", ""))
            for agent_id, record in found.items()
        }

    def _find_lacks(self, queued: Iterable[Mapping[str, str | None]]) -> dict[str, str]:
        """Needs of queued agents → why no worker can take them."""
        wanted = {record["needs"] or "{}" for record in queued}
        if not wanted:
            return {}
        workers = [Has.model_validate_json(has) for has in self._store.fleet.workers().values()]
        return {needs: find_common_lack(Needs.model_validate_json(needs), workers) for needs in wanted}


class WatchedJob:
    """A job for one watcher: read completely once, and then only its changes."""

    def __init__(self, store: Store, job_id: str) -> None:
        self._reader, self._job_id = LiveReader(store), job_id
        self._now: LiveSnapshot | None = None

    @property
    def agents(self) -> list[Row]:
        """The rows of the job's agents at the last look, parents before their children."""
        return [] if self._now is None else list(self._now.agents.values())

    def look(self, events: Sequence[Event] | None = None) -> LiveSnapshot:
        """Read the job's current state; `events` are the new ones, if the caller has them. Raises `UnknownAgent`."""
        if self._now is None:
            self._now = self._reader.snapshot(self._job_id)
        else:
            came = self._reader.events(self._job_id, self._now.events) if events is None else events
            self._now = fold(self._now, self._reader.patch(self._job_id, self._now, came, at_work=True))
        return self._now


def _row_of(job_id: str, now: JobNow | None, questions: Sequence[Question]) -> Row | None:
    """Make the row of a job; None if it does not exist."""
    if now is None:
        return None
    asked = sum(question.job_id == job_id and not question.to for question in questions)
    return job_row(job_id, now.record, running=now.running, queued=now.queued, questions=asked)
