"""A job for watchers: a snapshot, patches, and their folding. Pure.

Guarantee: the patches after a snapshot's cursor, folded into it in order, give the snapshot at the time of the last one.
Values in a patch are absolute, so a repeated patch, or one that the snapshot already includes, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from swarm.core.records import Event
from swarm.store.questions import Question
from swarm.streaming.live.rows import Row


@dataclass(frozen=True)
class LiveSnapshot:
    """A job and its agents at one moment."""

    job_id: str
    events: str
    """Cursor of the job's event stream: patches are made of the events after it."""
    seq: int
    """The job's last number."""
    job: Row
    agents: Mapping[str, Row]
    """Agent id → row, in the order of creation: parents before their children."""
    questions: Sequence[Question]
    """Open questions, oldest first."""
    left: int = 0
    """How many agents it lacks, the youngest ones."""


@dataclass(frozen=True)
class Patch:
    """Changes since a snapshot: missing or None fields are unchanged."""

    events: str
    seq: int
    job: Row | None = None
    agents: Mapping[str, Row] = field(default_factory=dict)
    questions: Sequence[Question] | None = None
    at: float = 0.0
    """When the patch was read, by the server's clock."""
    happened: Sequence[Event] = ()
    """The events that the patch was made of."""


def fold(snapshot: LiveSnapshot, patch: Patch) -> LiveSnapshot:
    """Apply the patch's changes to the snapshot."""
    return replace(
        snapshot,
        events=patch.events,
        seq=max(snapshot.seq, patch.seq),
        job=snapshot.job if patch.job is None else patch.job,
        # Known agents keep their places; new ones come after them.
        agents={**snapshot.agents, **patch.agents},
        questions=snapshot.questions if patch.questions is None else patch.questions,
    )


def touched(events: Sequence[Event]) -> list[str]:
    """Find the agents whose rows these events may have changed, in the order of the events."""
    ids = [
        agent_id
        for event in events
        # The writer of a message has one more call, its receiver one more message.
        for agent_id in ((event.agent_id, event.fields.get("to", "")) if event.kind == "message" else (event.agent_id,))
        if agent_id.startswith("agent-")
    ]
    return list(dict.fromkeys(ids))
