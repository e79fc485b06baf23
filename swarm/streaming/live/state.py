"""A job as those see it who watch: a snapshot, patches, and how they fold. Pure.

Guarantee: the patches that follow a snapshot's cursor, folded into it in order, give the snapshot of the moment of the last one.
What a patch holds is absolute, so one that comes twice, or tells what the snapshot has already, changes nothing.
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
    """Cursor of the job's event stream: patches are made of what comes after it."""
    seq: int
    """The job's last number."""
    job: Row
    agents: Mapping[str, Row]
    """By id, in the order in which they were made: parents before their children."""
    questions: Sequence[Question]
    """Those that are open, oldest first."""


@dataclass(frozen=True)
class Patch:
    """What has changed since: nothing of what is not there, or None."""

    events: str
    seq: int
    job: Row | None = None
    agents: Mapping[str, Row] = field(default_factory=dict)
    questions: Sequence[Question] | None = None
    at: float = 0.0
    """When it was read, by the server's clock."""
    happened: Sequence[Event] = ()
    """The events that it was made of."""


def fold(snapshot: LiveSnapshot, patch: Patch) -> LiveSnapshot:
    """The snapshot with the patch's changes."""
    return replace(
        snapshot,
        events=patch.events,
        seq=max(snapshot.seq, patch.seq),
        job=snapshot.job if patch.job is None else patch.job,
        # Those that are known keep their places, new ones come after them.
        agents={**snapshot.agents, **patch.agents},
        questions=snapshot.questions if patch.questions is None else patch.questions,
    )


def touched(events: Sequence[Event]) -> list[str]:
    """The agents whose rows these events may have changed, in the order of the events."""
    ids = [
        agent_id
        for event in events
        # The writer of a message has one more call, its receiver one more message.
        for agent_id in ((event.agent_id, event.fields.get("to", "")) if event.kind == "message" else (event.agent_id,))
        if agent_id.startswith("agent-")
    ]
    return list(dict.fromkeys(ids))
