"""Journals, read to their ends again and again: each entry counted once, and the spans that it completes told to whoever takes them.

Guarantees. Figures: an entry is counted in the same step that notes so, so exactly once, whatever dies. Spans: they are noted as told after
they were taken, so none is lost; who dies in between tells the last ones again, the same to the last bit, under the same ids.
Of several readers that tell of spans one is at work, and of those that only count; the others stand by. What a job did that expired
unread is not told.
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
"""So long another one stands by after a reader was heard of."""

Send = Callable[[Sequence[Span]], bool]
"""Tells of spans; whether they were taken."""
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
        """Of jobs that are not over."""
        self._seqs: dict[str, int] = {}
        """Where each of them was when nothing was left of it."""
        self._feed = ""
        """The last event of all jobs that was seen; empty: all jobs are to be looked at."""

    def read(self) -> bool:
        """Read what is new; whether this reader did, and everything was taken. Raises `redis.RedisError`."""
        if not self._kept.be_reader(self._role, self._who, READER_SECONDS):
            # What another one does meanwhile is to be looked at again.
            self._folds, self._seqs, self._feed = {}, {}, ""
            return False
        feed, changed = self._look()
        left = [job_id for job_id in changed if not self._read_job(job_id)]
        if not left:
            self._feed = feed
            self._kept.note_read()
        return not left

    def leave(self) -> None:
        """Let another one read at once. Raises `redis.RedisError`."""
        self._kept.leave_reader(self._role, self._who)

    def _look(self) -> tuple[str, list[str]]:
        """Jobs in which something may have happened since, and where the feed has come to."""
        streams = self._store.streams
        now, first = streams.last(FEED), streams.first(FEED)
        if not self._feed or (first and position_of(first) > position_of(self._feed)):
            return now, self._unread(self._store.jobs.ids())
        told = {fields["job"]: None for _, fields in streams.after(FEED, self._feed, None)}
        return now, list({**dict.fromkeys(self._folds), **told})

    def _unread(self, job_ids: list[str]) -> list[str]:
        """Those that have got further than was noted when there was nothing left of them."""
        parts = (job_ids[start : start + BATCH] for start in range(0, len(job_ids), BATCH))
        return [job_id for part in parts for job_id in self._kept.unread(part, self._mark)]

    @property
    def _mark(self) -> str:
        return "counted" if self._send is None else "told"

    def _read_job(self, job_id: str) -> bool:
        """Read a job's journals; whether all of it was taken."""
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
        # Whoever started an agent is older, and comes before it.
        taken = True
        for agent in self._store.agents.find(self._find_changed(job_id, folds)):
            if agent is not None:
                taken = self._read_agent(agent, folds, marks, outbox) and taken
        if not (self._tell(job_id, outbox) and taken):
            # From the beginning, next time: what was folded was not told, or counted by somebody else, who may have died.
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
        """The job's agents whose journals have grown, the oldest first."""
        agent_ids = self._store.agents.ids([job_id])
        lengths = self._store.journals.lengths(agent_ids)
        known = {agent_id: fold.number for agent_id, fold in folds.items()}
        return [one for one, length in zip(agent_ids, lengths, strict=True) if length > known.get(one, 0)]

    def _read_agent(self, agent: AgentView, folds: dict[str, Fold], marks: dict[str, str], outbox: list[_Told]) -> bool:
        """Read what is new of a journal: count it, and have its spans be told. Returns whether nobody else has counted it."""
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
        """Tell of spans, batch by batch, and note each that was taken."""
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
    """The span that an agent's first run is below. Whoever started it is older, and was read before it."""
    if agent.parent_id is None:
        return job_span_id(agent.job_id)
    above = folds.get(agent.parent_id)
    return run_span_id(agent.parent_id, above.children.get(agent.id, 0) if above is not None else 0)
