"""Telemetry's data in Redis: the current readers, their positions in journals, and the counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from swarm.store.keyspace import Keyspace


class TelemetryStore:
    """The marks and figures of telemetry."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def be_reader(self, role: str, who: str, seconds: float) -> bool:
        """Take or keep a role for `seconds`; return False while another reader has it."""
        return bool(self._keyspace.run("be_reader", role, who, round(seconds * 1000)))

    def leave_reader(self, role: str, who: str) -> None:
        """Give a role back."""
        self._keyspace.run("leave_reader", role, who)

    def note_read(self) -> None:
        """Note that everything has been read now."""
        self._keyspace.client.set(self._keyspace.key("telemetry", "read"), self._keyspace.now())

    def unread(self, job_ids: Sequence[str], mark: str) -> list[str]:
        """Find the jobs that have advanced since this mark."""
        seqs = self._keyspace.each("get", (self._keyspace.key("job", job_id, "seq") for job_id in job_ids))
        noted = self._keyspace.each(
            "hget", (self._keyspace.key("job", job_id, "telemetry") for job_id in job_ids), mark
        )
        found = zip(job_ids, seqs, noted, strict=True)
        return [job_id for job_id, seq, known in found if seq and seq != known]

    def marks(self, job_id: str) -> dict[str, str]:
        """Return all marks of a job."""
        return dict(self._keyspace.client.hgetall(self._keyspace.key("job", job_id, "telemetry")))

    def note_told(self, job_id: str, marks: Mapping[str, str | int]) -> None:
        """Set marks of a job."""
        self._keyspace.run("note_told", job_id, *(word for mark in marks.items() for word in mark))

    def count_entries(self, job_id: str, agent_id: str, counted: int, number: int, counts: Mapping[str, int]) -> bool:
        """Add counts, and note how far a journal is counted; False if another reader has counted it."""
        return bool(self._keyspace.run("count_entries", job_id, agent_id, counted, number, json.dumps(counts)))
