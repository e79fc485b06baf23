"""How long the fleet needed after each blow, computed from the job's event stream. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

HOLDING_ENDS = ("parked", "ended", "handed_over", "rescued")
"""Events after which an agent holds no process."""
SIGNS_OF_LIFE = ("running", "progress", "parked", "ended", "handed_over")


@dataclass(frozen=True)
class Blow:
    """One thing done to the fleet. Times are Unix seconds by this host's clock, which is Redis' too."""

    kind: str
    at: float
    worker_pid: int | None
    """The main process of the worker that was hit; None when all were."""
    over_at: float
    """When what was taken away was back (a restarted Redis); `at` for the others."""


@dataclass(frozen=True)
class ExternalEvent:
    """One event of the job."""

    at: float
    kind: str
    agent_id: str
    worker_pid: int | None


def read_external_events(rows: Sequence[tuple[str, Mapping[str, str]]]) -> list[ExternalEvent]:
    """The events as they are in the stream; a worker's name holds its main process' id."""
    external_events = []
    for event_id, fields in rows:
        worker = fields.get("worker", "").split(":")
        pid = int(worker[1]) if len(worker) == 3 else None
        external_events.append(ExternalEvent(int(event_id.split("-")[0]) / 1000, fields["kind"], fields["agent"], pid))
    return external_events


def recoveries(blows: Sequence[Blow], external_events: Sequence[ExternalEvent]) -> dict[str, list[float]]:
    """Kind of blow → seconds that each affected agent needed.

    After a blow to one worker: each agent that had to be rescued from it, until it runs again. After a blow to all: each
    agent that held a process, until its next sign of life, counted from when Redis was back. After a worker was told to
    leave: each agent that it handed over, from then until it runs again.
    """
    found: dict[str, list[float]] = {blow.kind: [] for blow in blows}
    claimed: dict[str, float] = {}
    for index, event in enumerate(external_events):
        if event.kind == "running":
            claimed[event.agent_id] = event.at
        if event.kind != "rescued":
            continue
        cause = _cause(blows, event, claimed.get(event.agent_id, 0.0))
        again = _next(external_events[index + 1 :], event.agent_id, ("running",))
        if cause is not None and again is not None:
            found[cause.kind].append(again.at - cause.at)
    for blow in blows:
        if blow.worker_pid is None:
            later = [event for event in external_events if event.at >= blow.over_at]
            for agent_id, claim in _holding(external_events, blow.at).items():
                sign = _next(later, agent_id, SIGNS_OF_LIFE)
                if sign is not None and not _fell_on(blows, claim, sign.at):
                    found[blow.kind].append(max(0.0, sign.at - blow.over_at))
        elif blow.kind == "drain":
            found[blow.kind] += _handed_over(blow, external_events)
    return found


def _cause(blows: Sequence[Blow], rescued: ExternalEvent, claimed_at: float) -> Blow | None:
    """The blow to the agent's worker that the rescue made good, if one fell while it was claimed."""
    ours = (rescued.worker_pid, None)
    fell = [b for b in blows if claimed_at <= b.at <= rescued.at and b.worker_pid in ours and b.kind != "drain"]
    whole = [blow for blow in fell if blow.kind in ("worker", "stop")]
    if whole:
        return whole[-1]
    # Nothing tells which agent a killed child ran, so with another blow in between it is not held to be the cause.
    return fell[-1] if fell and fell[-1].worker_pid is not None else None


def _handed_over(drain: Blow, external_events: Sequence[ExternalEvent]) -> Iterator[float]:
    later = [event for event in external_events if event.at >= drain.at]
    for agent_id, claim in _holding(external_events, drain.at).items():
        over = _next(later, agent_id, HOLDING_ENDS) if claim.worker_pid == drain.worker_pid else None
        if over is not None and over.kind == "handed_over":
            again = _next([event for event in later if event.at >= over.at], agent_id, ("running",))
            if again is not None:
                yield again.at - over.at


def _fell_on(blows: Sequence[Blow], claim: ExternalEvent, until: float) -> bool:
    """Whether the agent's own worker was hit, too, while it held that claim."""
    return any(claim.at <= blow.at <= until and blow.worker_pid == claim.worker_pid for blow in blows)


def _holding(external_events: Sequence[ExternalEvent], at: float) -> dict[str, ExternalEvent]:
    """The agents that held a process at that time, each with the event of its claim."""
    holding: dict[str, ExternalEvent] = {}
    for event in external_events:
        if event.at > at:
            break
        if event.kind == "running":
            holding[event.agent_id] = event
        elif event.kind in HOLDING_ENDS:
            holding.pop(event.agent_id, None)
    return holding


def _next(external_events: Sequence[ExternalEvent], agent_id: str, kinds: Sequence[str]) -> ExternalEvent | None:
    return next((event for event in external_events if event.agent_id == agent_id and event.kind in kinds), None)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; `share` is 0..1."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
