"""What telemetry keeps in Redis and reads from it: who reads the journals, how far, what was counted, and the fleet's figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from swarm.store.keyspace import Keyspace


class TelemetryStore:
    """The marks and figures of telemetry."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def be_reader(self, role: str, who: str, seconds: float) -> bool:
        """Take a role, or keep it, for so long; False while another reader has it."""
        return bool(self._keyspace.run("be_reader", role, who, round(seconds * 1000)))

    def leave_reader(self, role: str, who: str) -> None:
        """Give a role back."""
        self._keyspace.run("leave_reader", role, who)

    def note_read(self) -> None:
        """Note that everything was read now."""
        self._keyspace.client.set(self._keyspace.key("telemetry", "read"), self._keyspace.now())

    def unread(self, job_ids: Sequence[str], mark: str) -> list[str]:
        """The jobs that have got further than was noted under this mark."""
        pipeline = self._keyspace.client.pipeline(transaction=False)
        for job_id in job_ids:
            pipeline.get(self._keyspace.key("job", job_id, "seq"))
            pipeline.hget(self._keyspace.key("job", job_id, "telemetry"), mark)
        values = pipeline.execute() if job_ids else []
        found = zip(job_ids, values[::2], values[1::2], strict=True)
        return [job_id for job_id, seq, noted in found if seq and seq != noted]

    def marks(self, job_id: str) -> dict[str, str]:
        """All marks of a job."""
        return dict(self._keyspace.client.hgetall(self._keyspace.key("job", job_id, "telemetry")))

    def note_told(self, job_id: str, marks: Mapping[str, str | int]) -> None:
        """Set marks of a job."""
        self._keyspace.run("note_told", job_id, *(word for mark in marks.items() for word in mark))

    def count_entries(self, job_id: str, agent_id: str, counted: int, number: int, counts: Mapping[str, int]) -> bool:
        """Add counts, and note how far a journal is counted; False if another reader has counted it."""
        return bool(self._keyspace.run("count_entries", job_id, agent_id, counted, number, json.dumps(counts)))

    def figures(self) -> dict[str, Any]:
        """The state of the fleet by name, in two round trips; ages in seconds."""
        key, now = self._keyspace.key, self._keyspace.now()
        with self._keyspace.client.pipeline(transaction=False) as pipeline:
            pipeline.hgetall(key("telemetry"))
            pipeline.hgetall(key("totals"))
            pipeline.zcard(key("leases"))
            pipeline.zcard(key("ready"))
            pipeline.zrange(key("ready"), 0, 0, withscores=True)
            pipeline.zrange(key("turns"), 0, -1)
            pipeline.zcard(key("aside"))
            pipeline.zcard(key("questions"))
            pipeline.zrange(key("questions"), 0, 0, withscores=True)
            pipeline.hvals(key("slots"))
            pipeline.get(key("telemetry", "read"))
            pipeline.info("memory")
            counted, totals, running, ready, oldest, turns, aside, asked, first, slots, read, memory = (
                pipeline.execute()
            )
            for job_id in turns:
                pipeline.zcard(key("job", job_id, "line"))
            in_line = sum(pipeline.execute()) if turns else 0
        return {
            "counted": counted,
            "totals": totals,
            "running": running,
            "ready": ready + in_line,
            "oldest": max(0.0, now - oldest[0][1]) if oldest else 0.0,
            "aside": aside,
            "questions": asked,
            "question_age": max(0.0, now - first[0][1]) if first else 0.0,
            "slots": [int(count) for count in slots],
            "lag": max(0.0, now - float(read)) if read else 0.0,
            "memory": memory,
        }
