"""Read journals to their ends periodically: count each entry once, and send the spans that it completes.

Guarantees. Figures: one step counts an entry and notes that, so it counts exactly once, even after a crash. Spans: they are noted as
sent after the receiver took them, so none is lost. After a crash in between, identical spans are sent again, under the same ids.
One reader sends spans, and one only counts; further readers stand by. Entries of a job that expired unread are lost.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence

from swarm.core.errors import UnknownAgent
from swarm.core.log import EventLog
from swarm.core.records import AgentView
from swarm.mailbox import position_of
from swarm.store.store import Store
from swarm.store.streams import FEED
from swarm.telemetry.spans import Fold, Span, job_span_id, run_span_id
from swarm.telemetry.store import TelemetryStore

log = EventLog("swarm.telemetry")
BATCH = 512
READER_SECONDS = 60.0
"""How long other readers stand by after a reader's last sign of life."""

Send = Callable[[Sequence[Span]], bool]
"""Sends spans; returns whether they were received."""
_Told = tuple[str, int, list[Span]]
"""An agent, how far its journal was read, and the spans that this completed."""


class JournalReader:
    """Reads the journals of all jobs."""

    def __init__(self, store: Store, provider: str, send: Send | None) -> None:
        self._store, self._provider, self._send = store, provider, send
        self._kept = TelemetryStore(store.keyspace)
        self._who = secrets.token_hex(8)
        self._role = "counting" if send is None else "telling"
        self._folds: dict[str, dict[str, Fold]] = {}
        """Job id → agent id → fold, of jobs that have not ended."""
        self._seqs: dict[str, int] = {}
        """Job id → the job's number when all of it was read."""
        self._feed = ""
        """Cursor of the last event read from the feed of all jobs; empty: check all jobs."""

    def read(self) -> bool:
        """Read new entries; return whether this reader did, and all was received. Raises `redis.RedisError`."""
        if not self._kept.be_reader(self._role, self._who, READER_SECONDS):
            # Another reader's work must be checked again.
            self._folds, self._seqs, self._feed = {}, {}, ""
            return False
        feed, changed = self._look()
        left = [job_id for job_id in changed if not self._read_job(job_id)]
        if not left:
            self._feed = feed
            self._kept.note_read()
        return not left

    def leave(self) -> None:
        """Let another reader start at once. Raises `redis.RedisError`."""
        self._kept.leave_reader(self._role, self._who)

    def _look(self) -> tuple[str, list[str]]:
        """Find jobs that may have new entries, and the feed's current cursor."""
        streams = self._store.streams
        now, first = streams.last(FEED), streams.first(FEED)
        if not self._feed or (first and position_of(first) > position_of(self._feed)):
            return now, self._unread(self._store.jobs.ids())
        told = {fields["job"]: None for _, fields in streams.after(FEED, self._feed, None)}
        return now, list({**dict.fromkeys(self._folds), **told})

    def _unread(self, job_ids: list[str]) -> list[str]:
        """Find jobs with new entries since they were noted as read."""
        parts = (job_ids[start : start + BATCH] for start in range(0, len(job_ids), BATCH))
        return [job_id for part in parts for job_id in self._kept.unread(part, self._mark)]

    @property
    def _mark(self) -> str:
        return "counted" if self._send is None else "told"

    def _read_job(self, job_id: str) -> bool:
        """Read a job's journals; return whether all of it was received."""
        seq = self._store.jobs.seq(job_id)
        if seq and self._seqs.get(job_id) == seq:
            return True
        try:
            over = self._store.jobs.get(job_id).ended
        except UnknownAgent:
            self._forget(job_id)
            return True
        marks = self._kept.marks(job_id)
        folds, outbox = self._folds.setdefault(job_id, {}), list[_Told]()
        # An agent's parent is older, and comes before it.
        taken = True
        for agent in self._store.agents.find(self._find_changed(job_id, folds)):
            if agent is not None:
                taken = self._read_agent(agent, folds, marks, outbox) and taken
        if not (self._tell(job_id, outbox) and taken):
            # Next time, start from the beginning: the fold was not sent, or counted by another reader that may have died.
            self._forget(job_id)
            return False
        if over and seq:
            self._kept.note_told(job_id, {self._mark: seq})
        if over or not seq:
            self._forget(job_id)
        else:
            self._seqs[job_id] = seq
        return True

    def _forget(self, job_id: str) -> None:
        self._folds.pop(job_id, None)
        self._seqs.pop(job_id, None)

    def _find_changed(self, job_id: str, folds: dict[str, Fold]) -> list[str]:
        """Find the job's agents whose journals have grown, the oldest first."""
        agent_ids = self._store.agents.ids([job_id])
        lengths = self._store.journals.lengths(agent_ids)
        known = {agent_id: fold.number for agent_id, fold in folds.items()}
        return [one for one, length in zip(agent_ids, lengths, strict=True) if length > known.get(one, 0)]

    def _read_agent(self, agent: AgentView, folds: dict[str, Fold], marks: dict[str, str], outbox: list[_Told]) -> bool:
        """Read a journal's new entries, count them and queue their spans. Returns False if another reader counted them."""
        fold = folds.get(agent.id) or folds.setdefault(agent.id, Fold(agent, self._provider, _find_home(agent, folds)))
        counted, told = (int(marks.get(f"{what}:{agent.id}", 0)) for what in ("counted", "told"))
        counts = Counter[str]()
        while page := self._store.journals.stored(agent.id, after=fold.number):
            spans: list[Span] = []
            for entry in page:
                made, added = fold.take(entry)
                spans += made if entry.number > told else []
                counts += added if entry.number > counted else Counter()
            if self._send is not None and fold.number > told:
                outbox.append((agent.id, fold.number, spans))
        if fold.number <= counted:
            return True
        return self._kept.count_entries(agent.job_id, agent.id, counted, fold.number, counts)

    def _tell(self, job_id: str, outbox: list[_Told]) -> bool:
        """Send spans batch by batch, and note each batch that was received."""
        while outbox:
            batch, spans = list[tuple[str, int]](), list[Span]()
            while outbox and len(batch) < BATCH and (not batch or len(spans) + len(outbox[0][2]) <= BATCH):
                agent_id, number, found = outbox.pop(0)
                batch.append((agent_id, number))
                spans += found
            assert self._send is not None
            if spans and not self._send(spans):
                log.warning("telemetry.not_taken", job_id=job_id, spans=len(spans))
                return False
            self._kept.note_told(job_id, {f"told:{one}": at for one, at in batch})
        return True


def _find_home(agent: AgentView, folds: dict[str, Fold]) -> str:
    """Return the parent span of an agent's first run. The parent agent is older, and was read before."""
    if agent.parent_id is None:
        return job_span_id(agent.job_id)
    above = folds.get(agent.parent_id)
    return run_span_id(agent.parent_id, above.children.get(agent.id, 0) if above is not None else 0)
