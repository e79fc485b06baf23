"""Agents and jobs as their records in Redis have them: typed once, here, for the runtime, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field

OpenState = Literal["queued", "running", "parked"]
EndState = Literal["completed", "failed", "cancelled", "timed_out"]
State = Literal[OpenState, EndState]
TERMINAL_STATES: frozenset[str] = frozenset(get_args(EndState))
PermissionMode = Literal["plan", "dontAsk", "bubble", "default", "acceptEdits", "auto", "bypassPermissions"]
"""From the strictest to the most permissive.

`plan` is below `dontAsk`, since rules may allow that one effects; `dontAsk` is below the asking modes, since nobody can
lift its denials; `bubble` asks exactly where `default` does, but always the person at the top; `auto` allows what `acceptEdits` does, and
a small model may lift its questions.
"""
NANO = 1_000_000_000
"""Money is counted in whole nano-dollars, so that sums are exact."""


class Usage(BaseModel, frozen=True):
    """Tokens of one request (or a sum of several), in the API's four classes."""

    input_tokens: int = 0
    """Input that was neither read from nor written to the cache."""
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """All tokens that the model saw or wrote."""
        return self.input_tokens + self.output_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: count + getattr(other, name) for name, count in self})


class Limits(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """The limits of one job. They are enforced durably, for the whole tree together."""

    max_depth: int = Field(default=2, ge=0, le=64)
    """Levels of agents below the first."""
    max_agents: int = Field(default=200, ge=1, le=1_000_000)
    """Agents in all."""
    max_running: int = Field(default=20, ge=1, le=100_000)
    """Agents that run at once."""
    max_turns: int = Field(default=30, ge=1, le=100_000)
    """Turns of each agent; then one last reply without tools."""
    max_resumes: int = Field(default=100, ge=0, le=100_000)
    """How often other agents may continue one that has ended."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of the whole job, of every class."""
    budget_usd: float | None = Field(default=None, gt=0)
    """Money for the whole job."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Time for the whole job; again each time that it continues after its end."""


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
    def usage(self) -> Usage:
        """The tokens, as the API names them."""
        return Usage(
            input_tokens=self.input,
            output_tokens=self.output,
            cache_creation_input_tokens=self.cache_write,
            cache_read_input_tokens=self.cache_read,
        )

    def changed(self) -> dict[str, int]:
        """The ones that are not zero."""
        return {name: value for name, value in vars(self).items() if value}


class VerdictView(BaseModel, frozen=True):
    """What a check, or a grader, said of an agent's work."""

    at: float
    by: Literal["check", "grader"]
    attempt: int
    """How often the work had been handed in by then, that time included."""
    passed: bool
    void: bool = False
    """It could not be had: `summary` says why."""
    summary: str
    """In a line, for people."""
    exit_code: int | None = None
    """A check's."""
    grader: str = ""
    """The agent id of a grader."""

    @property
    def headline(self) -> str:
        """In a few words: `attempt 2: check passed`."""
        outcome = "passed" if self.passed else "could not be had" if self.void else "refused"
        return f"attempt {self.attempt}: {self.by} {outcome}"


_TOLD = ("id", "state", "label", "title", "reason", "turns", "agents", "cost_usd", "text")
_TOLD_CHARACTERS = 60
COUNTERS = tuple(field.name for field in fields(Counters))


class _View(BaseModel, frozen=True):
    """What agents and jobs have in common. Times are Unix seconds by the server's clock."""

    id: str
    state: State
    text: str = ""
    """Its answer; empty until it ends."""
    reason: str = ""
    """Why it ended as it did, when it did not simply complete."""
    stopped_at: Literal["", "turns", "tokens", "budget", "time", "context"] = ""
    """The limit that ended it, with what there was by then."""
    rehearsed: bool = False
    """Its model's words came from a script: it cost nothing."""
    turns: int = 0
    tools: int = 0
    usage: Usage
    cost_usd: float
    """What was paid; nothing for a rehearsal."""
    reckoned_usd: float = 0.0
    """What its limits go by: of a rehearsal, what the model would have cost."""
    created_at: float = 0.0
    ended_at: float | None = None
    verdicts: list[VerdictView] = []
    """What was said of its work (a job's: of its root's), where it must pass something: oldest first."""
    unread: int = 0
    """Messages in its mailbox (a job's: its person's) that have not been taken in."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What tells one from another: who it is and how it stands, its texts short; nothing that is as it always is."""
        for name, value in super().__repr_args__():
            if name in _TOLD and value not in ("", None):
                yield (
                    name,
                    value
                    if not isinstance(value, str) or len(value) <= _TOLD_CHARACTERS
                    else f"{value[:_TOLD_CHARACTERS]}…",
                )

    @property
    def ended(self) -> bool:
        """Whether it is over, as far as it is known."""
        return self.state in TERMINAL_STATES


class AgentView(_View):
    """One agent as it stands; `subtree_*` include the agent itself. What is excluded is the runtime's alone."""

    job_id: str = ""
    parent_id: str | None = None
    depth: int = 0
    label: str = ""
    definition: str = ""
    model: str = ""
    name: str | None = None
    """Its name in the job, by which it can be written to."""
    idle: bool = False
    """It is a teammate that has nothing to do: parked until a message or a task comes."""
    isolation: Literal["none", "worktree", "remote"] = "none"
    """Whether it works in a copy of its own of its parent's workspace."""
    merge: Literal["", "merged", "unchanged", "conflict", "kept", "left", "failed"] = ""
    """What became of its work there: it is in its parent's folder, there was none, or it is kept: because it conflicts, because the agent
    did not complete, because its parent wanted none of it, because merging it failed."""
    question: str | None = None
    """The question whose answer it waits for."""
    unserved: str = ""
    """Why nobody can run it now, though it is queued; known where somebody has looked."""
    activity: str = ""
    summary: str = ""
    """What a small model says it is doing, where that was asked for; gone with its end."""
    queued_at: float | None = None
    """When it was put in line last."""
    queued_seconds: float = 0.0
    """How long it stood there, in all, before it was taken last."""
    subtree_tokens: int
    subtree_cost_usd: float
    started_at: float | None = None
    worker: str | None = None
    deaths: int = 0
    """How often its worker has died since the journal last grew."""
    run_at: float | None = Field(default=None, exclude=True)
    """When its latest run began, if that is not its first …"""
    run_tools: int = Field(default=0, exclude=True)
    """… and what it had called …"""
    run_tokens: int = Field(default=0, exclude=True)
    """… and used by then, with all below it."""
    background: bool = Field(default=False, exclude=True)
    """Its end is mailed to its parent."""
    teammate: bool = Field(default=False, exclude=True)
    generation: int = Field(default=0, exclude=True)
    """How often it was claimed."""
    length: int = Field(default=0, exclude=True)
    """Entries of its journal."""
    active_at: float | None = Field(default=None, exclude=True)
    notices: int = Field(default=0, exclude=True)
    """Those of its unread messages that the runtime wrote."""
    below: Counters = Field(default=Counters(), exclude=True)
    """Sums of the agents below it, as far as they have ended."""
    data: str = Field(default="", exclude=True)
    """The answer as JSON, if a schema was given."""
    needs: str = Field(default="{}", exclude=True)
    """What its worker must have, as JSON."""

    @property
    def at_work(self) -> bool:
        """Whether anything is to be expected of it without anybody doing anything."""
        return not self.ended and not self.idle

    @property
    def called(self) -> str:
        """Its name, or its id when it has none."""
        return self.name or ("root" if self.parent_id is None else self.id)


class JobView(_View):
    """One job as it stands; `text` is the root's answer, and all sums are over the whole tree."""

    root_id: str = ""
    title: str = ""
    data: Any = None
    """The answer as data, if a schema was given."""
    digest: str = ""
    """What a small model says came of it, where that was asked for."""
    workspace: str = ""
    files: Literal["shared", "snapshots", "carried"] = "shared"
    """How its files are kept: they lie in the workspace; and snapshots beside them; or they follow agents from host to host."""
    limits: Limits = Limits()
    agents: int = 0
    sums: Counters = Field(default=Counters(), exclude=True)
    reserved_tokens: int = Field(default=0, exclude=True)
    reserved_cost: int = Field(default=0, exclude=True)
    """Nano-dollars."""
    read_up_to: str = Field(default="0-0", exclude=True)
    """The last message that the person has marked as read."""


class Event(BaseModel, frozen=True):
    """One lifecycle event of a job. By `kind`, what has happened to its agent, and the `fields` that say more:

    - `job_started`, and `job_ended` (state)
    - `spawned` (parent), `running` (worker, gen), `progress` (activity), `parked` (children, until, idle), `woken` (why),
      `handed_over` (why), `rescued` (deaths, worker), `ended` (state, reason; by: the agent or the person who stopped it), `resumed`
    - `message`: it wrote to the one in `to` (`user` is the person); `id` is the message's, `sort` its kind. `read`: it took its messages up
      to the one in `up_to` in, in the turn `turn`
    - `question` (question, sort, title), `answered` (question, state, answer, by): it asked something, and that is closed
    - `denied` (call, why), `bounded` (why), `held` (what), `hooked` (event, why), `server` (why): what it was not let do, or could not have
    - `merge` (why): what became of the work that it did in a copy of its own
    - `verdict` (by, attempt, passed, summary): what was said of its work. `summary` (sort, text)
    - `team` (change, name), `board` (task, change, subject), `pad` (page, change, size), `memory` (shelf, page, change): it changed what
      it shares
    - `budget` (share): so much of what the job may take is used, four fifths at least. `undelivered` (webhook, notice, tries, why): nobody
      could be told of an event
    """

    id: str
    """Position in the job's event stream: pass it to `follow(after=…)` to go on from here."""
    seq: int
    """Its place among all events and journal entries of the job."""
    at: float
    kind: str
    agent_id: str
    fields: dict[str, str]


def read_event(entry_id: str, fields: Mapping[str, str]) -> Event:
    """An entry of a job's event stream."""
    about = dict(fields)
    return Event(
        id=entry_id,
        seq=int(about.pop("seq")),
        at=int(entry_id.split("-")[0]) / 1000,
        kind=about.pop("kind"),
        agent_id=about.pop("agent"),
        fields=about,
    )


# -- from their hashes ---------------------------------------------------------------------------------------

_HASH_NAMES = {
    **{"job_id": "job", "parent_id": "parent", "root_id": "root", "generation": "gen", "question": "wait_question"},
    **{f"{name}_at": name for name in ("created", "queued", "started", "ended", "active", "run")},
    **{"queued_seconds": "waited", "notices": "unread_notes", "read_up_to": "read"},
}
"""What a hash calls by another name; neither the spec, the catalogue nor the rules are read with a record."""
_SUMMED = {"id", "usage", "cost_usd", "reckoned_usd", "subtree_tokens", "subtree_cost_usd", "below", "sums", "unserved"}


def _hash_fields(view: type[_View]) -> list[str]:
    return [_HASH_NAMES.get(name, name) for name in view.model_fields if name not in _SUMMED]


AGENT_FIELDS = tuple({*_hash_fields(AgentView), *COUNTERS, *(f"below_{name}" for name in COUNTERS)})
JOB_FIELDS = tuple({*_hash_fields(JobView), *COUNTERS})


def read_agent(agent_id: str, found: Mapping[str, str | None]) -> AgentView:
    """The record of an agent that exists; what was not fetched of it is as if it were not there."""
    own, below = _read_counters(found), _read_counters(found, "below_")
    rehearsed = bool(found.get("rehearsed"))
    given = _read_fields(AgentView, found)
    if verdicts := given.get("verdicts"):
        given["verdicts"] = json.loads(verdicts)
    return AgentView(
        **given,
        id=agent_id,
        usage=own.usage,
        cost_usd=0.0 if rehearsed else own.cost / NANO,
        reckoned_usd=own.cost / NANO,
        subtree_tokens=own.usage.total_tokens + below.usage.total_tokens,
        subtree_cost_usd=0.0 if rehearsed else (own.cost + below.cost) / NANO,
        below=below,
    )


def read_job(job_id: str, found: Mapping[str, str | None]) -> JobView:
    """The record of a job that exists."""
    sums, given = _read_counters(found), _read_fields(JobView, found)
    for name in given.keys() & {"data", "limits", "verdicts"}:
        given[name] = json.loads(given[name])
    reckoned = sums.cost / NANO
    cost = 0.0 if found.get("rehearsed") else reckoned
    return JobView(**given, id=job_id, usage=sums.usage, cost_usd=cost, reckoned_usd=reckoned, sums=sums)


def _read_fields(view: type[_View], found: Mapping[str, str | None]) -> dict[str, Any]:
    """What is there, as text, which the view makes flags, numbers and times of."""
    read = {name: found.get(_HASH_NAMES.get(name, name)) for name in view.model_fields if name not in _SUMMED}
    return {name: value for name, value in read.items() if value}


def _read_counters(found: Mapping[str, str | None], prefix: str = "") -> Counters:
    return Counters(**{name: int(found.get(prefix + name) or 0) for name in COUNTERS})
