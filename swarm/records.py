"""Agents and jobs as their records in Redis have them: typed once, here, for whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, cast

State = Literal["queued", "running", "parked", "completed", "failed", "cancelled", "timed_out"]
TERMINAL_STATES: frozenset[str] = frozenset({"completed", "failed", "cancelled", "timed_out"})
NANO = 1_000_000_000
"""Money is counted in whole nano-dollars, so that sums are exact."""


@dataclass(frozen=True)
class Counters:
    """What a step adds to the agent's and the job's sums, or such a sum."""

    turns: int = 0
    tools: int = 0
    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0
    cost: int = 0
    """Nano-dollars."""

    @property
    def tokens(self) -> int:
        """Tokens of every class."""
        return self.input + self.output + self.cache_write + self.cache_read

    def changed(self) -> dict[str, int]:
        """The ones that are not zero."""
        return {name: value for name, value in vars(self).items() if value}


COUNTERS = tuple(field.name for field in fields(Counters))


@dataclass(frozen=True)
class AgentRecord:
    """One agent. Times are Unix seconds by the server's clock."""

    id: str
    job_id: str
    parent_id: str | None
    depth: int
    label: str
    definition: str
    name: str | None
    """Its name in the job, by which it can be written to."""
    state: State
    background: bool
    """Its end is mailed to its parent."""
    teammate: bool
    idle: bool
    """It is a teammate that has nothing to do: parked until a message or a task comes."""
    generation: int
    """How often it was claimed."""
    length: int
    """Entries of its journal."""
    worker: str | None
    deaths: int
    """How often its worker has died since the journal last grew."""
    unread: int
    """Messages in its mailbox that it has not taken in."""
    question: str | None
    """The question whose answer it waits for."""
    activity: str
    active_at: float | None
    own: Counters
    below: Counters
    """Sums of the agents below it, as far as they have ended."""
    created_at: float
    started_at: float | None
    ended_at: float | None
    text: str
    reason: str
    data: str
    """The answer as JSON, if a schema was given."""

    @property
    def ended(self) -> bool:
        """Whether it has ended, as far as it is known."""
        return self.state in TERMINAL_STATES

    @property
    def at_work(self) -> bool:
        """Whether anything is to be expected of it without anybody doing anything."""
        return not self.ended and not self.idle

    @property
    def called(self) -> str:
        """Its name, or its id when it has none."""
        return self.name or ("root" if self.parent_id is None else self.id)


AGENT_FIELDS = (
    *(
        "state",
        "job",
        "parent",
        "depth",
        "label",
        "definition",
        "name",
        "background",
        "teammate",
        "idle",
        "gen",
        "length",
    ),
    *(
        "worker",
        "deaths",
        "unread",
        "wait_question",
        "activity",
        "active",
        "created",
        "started",
        "ended",
        "text",
        "reason",
    ),
    *("data", *COUNTERS, *(f"below_{name}" for name in COUNTERS)),
)
"""The fields of an agent's hash that its record is read from; the spec is not among them."""


def read_agent(agent_id: str, found: Mapping[str, str | None]) -> AgentRecord:
    """The record of an agent that exists; what was not fetched of it is as if it were not there."""
    return AgentRecord(
        id=agent_id,
        job_id=found.get("job") or "",
        parent_id=found.get("parent") or None,
        depth=int(found.get("depth") or 0),
        label=found.get("label") or "",
        definition=found.get("definition") or "",
        name=found.get("name") or None,
        state=cast(State, found["state"]),
        background=found.get("background") == "1",
        teammate=found.get("teammate") == "1",
        idle=found.get("idle") == "1",
        generation=int(found.get("gen") or 0),
        length=int(found.get("length") or 0),
        worker=found.get("worker") or None,
        deaths=int(found.get("deaths") or 0),
        unread=int(found.get("unread") or 0),
        question=found.get("wait_question") or None,
        activity=found.get("activity") or "",
        active_at=_read_time(found, "active"),
        own=_read_counters(found),
        below=_read_counters(found, "below_"),
        created_at=_read_time(found, "created") or 0.0,
        started_at=_read_time(found, "started"),
        ended_at=_read_time(found, "ended"),
        text=found.get("text") or "",
        reason=found.get("reason") or "",
        data=found.get("data") or "",
    )


@dataclass(frozen=True)
class JobRecord:
    """One job. `sums` are of the whole tree."""

    id: str
    root_id: str
    title: str
    state: State
    text: str
    """The root's answer; empty until the job ends."""
    reason: str
    data: str
    """The answer as JSON, if a schema was given."""
    workspace: str
    limits: str
    """As JSON."""
    agents: int
    sums: Counters
    reserved_tokens: int
    reserved_cost: int
    """Nano-dollars."""
    created_at: float
    ended_at: float | None
    unread: int
    """Messages to the person that nobody has marked as read."""
    read_up_to: str
    """The last message that the person has marked as read."""

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self.state in TERMINAL_STATES


JOB_FIELDS = (
    *("state", "root", "title", "text", "reason", "data", "workspace", "limits", "agents", *COUNTERS),
    *("reserved_tokens", "reserved_cost", "created", "ended", "unread", "read"),
)
"""The fields of a job's hash that its record is read from; the catalogue and the rules are not among them."""


def read_job(job_id: str, found: Mapping[str, str | None]) -> JobRecord:
    """The record of a job that exists."""
    return JobRecord(
        id=job_id,
        root_id=found.get("root") or "",
        title=found.get("title") or "",
        state=cast(State, found["state"]),
        text=found.get("text") or "",
        reason=found.get("reason") or "",
        data=found.get("data") or "",
        workspace=found.get("workspace") or "",
        limits=found.get("limits") or "{}",
        agents=int(found.get("agents") or 0),
        sums=_read_counters(found),
        reserved_tokens=int(found.get("reserved_tokens") or 0),
        reserved_cost=int(found.get("reserved_cost") or 0),
        created_at=_read_time(found, "created") or 0.0,
        ended_at=_read_time(found, "ended"),
        unread=int(found.get("unread") or 0),
        read_up_to=found.get("read") or "0-0",
    )


def _read_counters(found: Mapping[str, str | None], prefix: str = "") -> Counters:
    return Counters(**{name: int(found.get(prefix + name) or 0) for name in COUNTERS})


def _read_time(found: Mapping[str, str | None], name: str) -> float | None:
    value = found.get(name)
    return float(value) if value else None
