"""Typed records of agents and jobs in Redis, for the runtime, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field

from swarm.core.usage import COUNTERS, NANO, Counters, Usage, dollars_known

OpenState = Literal["queued", "running", "parked"]
EndState = Literal["completed", "failed", "cancelled", "timed_out"]
State = Literal[OpenState, EndState]
ListedState = Literal["running", EndState]
"""Of a job; `running` until it ends."""
TERMINAL_STATES: frozenset[str] = frozenset(get_args(EndState))
PermissionMode = Literal["plan", "dontAsk", "bubble", "default", "acceptEdits", "auto", "bypassPermissions"]
"""Permission modes from the strictest to the most permissive.

- `plan` is below `dontAsk`, because rules may allow effects there.
- `dontAsk` is below the asking modes, because no answer can lift its denials.
- `bubble` asks where `default` does, but always the person at the top.
- `auto` allows the same as `acceptEdits`, and a small model may lift its questions.
"""


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
    """How often other agents may continue an ended agent."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of the whole job, of every class."""
    budget_usd: float | None = Field(default=None, gt=0)
    """Money for the whole job."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Time for the whole job; it starts again each time the job continues after its end."""


class VerdictView(BaseModel, frozen=True):
    """The verdict of a check or a grader on an agent's work."""

    at: float
    by: Literal["check", "grader"]
    attempt: int
    """Number of submissions of the work so far, this one included."""
    passed: bool
    void: bool = False
    """There is no verdict: `summary` says why."""
    summary: str
    """One line for people."""
    exit_code: int | None = None
    """Exit code of a check."""
    grader: str = ""
    """Agent id of a grader."""

    @property
    def headline(self) -> str:
        """The verdict in a few words: `attempt 2: check passed`."""
        outcome = "passed" if self.passed else "gave no verdict" if self.void else "refused"
        return f"attempt {self.attempt}: {self.by} {outcome}"


_TOLD = ("id", "state", "label", "title", "reason", "turns", "agents", "cost_usd", "text")
_TOLD_CHARACTERS = 60


class RunScore(BaseModel, frozen=True):
    """A score of a job's work, by a person, a command or a grader."""

    passed: bool | None = None
    """None for a note that judges nothing."""
    points: float | None = Field(default=None, ge=0, le=1)
    note: str = Field(default="", max_length=2_000)
    by: str = ""
    at: float = 0.0


class _View(BaseModel, frozen=True):
    """Common fields of agents and jobs. Times are Unix seconds by the server's clock."""

    id: str
    state: State
    text: str = ""
    """The answer; empty until the end."""
    reason: str = ""
    """Why the end is not a plain completion."""
    stopped_at: Literal["", "turns", "tokens", "budget", "time", "context", "space"] = ""
    """The limit that ended it; `text` holds the work done by then."""
    rehearsed: bool = False
    """A script stood in for the model, at no cost."""
    turns: int = 0
    tools: int = 0
    usage: Usage
    cost_usd: float | None
    """Dollars paid, as far as prices are known; None if none is. Nothing for a rehearsal."""
    estimated_usd: float = 0.0
    """The part of it that is an estimate, of replies that were cut or lost."""
    unpriced_tokens: int = 0
    """Tokens of models without a known price, whose cost is missing."""
    reckoned_usd: float = 0.0
    """Dollars counted towards the limits; of a rehearsal, the price that the model would have had."""
    created_at: float = 0.0
    ended_at: float | None = None
    verdicts: list[VerdictView] = []
    """Verdicts on the work (a job's: on its root's), oldest first."""
    unread: int = 0
    """Unread messages in the mailbox (a job's: its person's)."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the identity, the state and short texts; default values are omitted."""
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
        """Whether the agent or job has ended, as far as known."""
        return self.state in TERMINAL_STATES


class AgentView(_View):
    """One agent's current state; `subtree_*` include the agent. Excluded fields are internal."""

    job_id: str = ""
    parent_id: str | None = None
    depth: int = 0
    label: str = ""
    definition: str = ""
    model: str = ""
    name: str | None = None
    """The name in the job, under which others write to it."""
    idle: bool = False
    """An idle teammate: parked until a message or a task comes."""
    isolation: Literal["none", "worktree", "remote"] = "none"
    """Whether the agent works in its own copy of its parent's workspace."""
    merge: Literal["", "merged", "unchanged", "conflict", "kept", "left", "failed"] = ""
    """The fate of the work in the copy: in the parent's folder, none, or kept because it conflicts, because the agent did not complete,
    because the parent declined it, or because the merge failed."""
    question: str | None = None
    """The open question of the agent."""
    unserved: str = ""
    """Why no worker can run this queued agent; known only if somebody has checked."""
    activity: str = ""
    phase: str = ""
    """The phase of the workflow that started the agent."""
    summary: str = ""
    """A small model's line about current work, if requested; removed at the end."""
    queued_at: float | None = None
    """When the agent was last queued."""
    queued_seconds: float = 0.0
    """Total time in the queue before the last claim."""
    subtree_tokens: int
    subtree_cost_usd: float | None
    started_at: float | None = None
    worker: str | None = None
    deaths: int = 0
    """Deaths of its worker since the journal last grew."""
    run_at: float | None = Field(default=None, exclude=True)
    """Start of the latest run, if not the first."""
    run_tools: int = Field(default=0, exclude=True)
    """Tool calls before the latest run."""
    run_tokens: int = Field(default=0, exclude=True)
    """Tokens used before the latest run, with all agents below."""
    background: bool = Field(default=False, exclude=True)
    """The parent receives the end as mail."""
    teammate: bool = Field(default=False, exclude=True)
    generation: int = Field(default=0, exclude=True)
    """Number of claims."""
    length: int = Field(default=0, exclude=True)
    """Entries of its journal."""
    active_at: float | None = Field(default=None, exclude=True)
    notices: int = Field(default=0, exclude=True)
    """Unread messages that the runtime wrote."""
    below: Counters = Field(default=Counters(), exclude=True)
    """Sums of the ended agents below."""
    data: str = Field(default="", exclude=True)
    """The answer as JSON, if a schema was given."""
    needs: str = Field(default="{}", exclude=True)
    """Requirements of the worker, as JSON."""

    @property
    def at_work(self) -> bool:
        """Whether the agent can progress without anybody's action."""
        return not self.ended and not self.idle

    @property
    def called(self) -> str:
        """The agent's name, else `root` or its id."""
        return self.name or ("root" if self.parent_id is None else self.id)


class JobView(_View):
    """One job's current state; `text` is the root's answer, and all sums cover the whole tree."""

    root_id: str = ""
    title: str = ""
    data: Any = None
    """The answer as data, if a schema was given."""
    digest: str = ""
    """A small model's account of the result, if requested."""
    workspace: str = ""
    files: Literal["shared", "snapshots", "carried"] = "shared"
    """`shared`: files lie in the workspace. `snapshots`: and snapshots beside them. `carried`: they follow agents from host to host."""
    branch: str = ""
    """The pushed branch of the work, if the job works on a repository."""
    pull_request: str = ""
    """The address of its pull request."""
    unpushed: str = ""
    """Why the work is not in that branch, or has no pull request."""
    limits: Limits = Limits()
    scores: dict[str, RunScore] = {}
    """Scores of the work by their names, such as `person`."""
    evaluation: str = ""
    """Id of the evaluation that it is a run of."""
    agents: int = 0
    archived: str = ""
    """Digest of the object that holds the job, if it is in the archive: in lists such a job has no answer, limits and verdicts. Reading
    the job itself brings them back."""
    sums: Counters = Field(default=Counters(), exclude=True)
    reserved_tokens: int = Field(default=0, exclude=True)
    reserved_cost: int = Field(default=0, exclude=True)
    """Nano-dollars."""
    read_up_to: str = Field(default="0-0", exclude=True)
    """The last message that the person marked as read."""

    @property
    def position(self) -> str:
        """Position in the list of jobs: pass it to `Swarm.jobs(before=…)` to continue from here."""
        return f"{self.created_at!r}:{self.id}"

    def mentions(self, text: str) -> bool:
        """Whether the title, the workspace or the id contains these words, in any case."""
        return text.lower() in f"{self.id}\n{self.title}\n{self.workspace}".lower()


class Event(BaseModel, frozen=True):
    """One lifecycle event of a job. Each `kind` of event, with its `fields`:

    - `job_started`, and `job_ended` (state)
    - `spawned` (parent), `running` (worker, gen), `progress` (activity), `parked` (children, until, idle), `woken` (why),
      `handed_over` (why), `rescued` (deaths, worker), `ended` (state, reason; by: the agent or the person who stopped it), `resumed`
    - `message`: the agent wrote to `to` (`user` is the person); `id` is the message's, `sort` its kind. `read`: the agent took in its
      messages through `up_to`, in the turn `turn`
    - `question` (question, sort, title), `answered` (question, state, answer, by): the agent asked something; the question was closed
    - `denied` (call, why), `bounded` (why), `held` (what), `hooked` (event, why), `server` (why): a refused action, or a missing resource
    - `switched` (model, was, reason, why): the agent asks another model from now on
    - `note` (sort: phase, log or progress; text): a workflow tells people something
    - `merge` (why): the fate of the work in the agent's own copy
    - `verdict` (by, attempt, passed, summary): the verdict on the work. `summary` (sort, text)
    - `team` (change, name), `board` (task, change, subject), `pad` (page, change, size), `memory` (memory_store, page, change): a
      shared resource changed
    - `budget` (share): this share of the job's budget is used, at least four fifths. `undelivered` (webhook, notice, tries, why): a
      notification could not be delivered
    """

    id: str
    """Position in the job's event stream: pass it to `follow(after=…)` to continue from here."""
    seq: int
    """Place among all events and journal entries of the job."""
    at: float
    kind: str
    agent_id: str
    fields: dict[str, str]


def read_event(entry_id: str, fields: Mapping[str, str]) -> Event:
    """Read an entry of a job's event stream."""
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
"""Field names that differ in the hash. Neither the spec, the catalogue nor the rules are read with a record."""
_MONEY = {"cost_usd", "estimated_usd", "unpriced_tokens", "reckoned_usd"}
_SUMMED = {"id", "usage", "subtree_tokens", "subtree_cost_usd", "below", "sums", "unserved", *_MONEY}


def _hash_fields(view: type[_View]) -> list[str]:
    return [_HASH_NAMES.get(name, name) for name in view.model_fields if name not in _SUMMED]


AGENT_FIELDS = tuple({*_hash_fields(AgentView), *COUNTERS, *(f"below_{name}" for name in COUNTERS)})
JOB_FIELDS = tuple({*_hash_fields(JobView), *COUNTERS})


def read_agent(agent_id: str, found: Mapping[str, str | None]) -> AgentView:
    """Read the record of an existing agent; fields that were not fetched keep their defaults."""
    own, below = _read_counters(found), _read_counters(found, "below_")
    rehearsed = bool(found.get("rehearsed"))
    given = _read_fields(AgentView, found)
    if verdicts := given.get("verdicts"):
        given["verdicts"] = json.loads(verdicts)
    return AgentView(
        **given,
        id=agent_id,
        usage=own.usage,
        **money_of(own, rehearsed=rehearsed),
        subtree_tokens=own.usage.total_tokens + below.usage.total_tokens,
        subtree_cost_usd=dollars_known(own + below, rehearsed=rehearsed),
        below=below,
    )


def read_job(job_id: str, found: Mapping[str, str | None]) -> JobView:
    """Read the record of an existing job."""
    sums, given = _read_counters(found), _read_fields(JobView, found)
    for name in given.keys() & {"data", "limits", "scores", "verdicts"}:
        given[name] = json.loads(given[name])
    money = money_of(sums, rehearsed=bool(found.get("rehearsed")))
    return JobView(**given, id=job_id, usage=sums.usage, **money, sums=sums)


def money_of(counted: Counters, *, rehearsed: bool) -> dict[str, Any]:
    """Return the fields of a record about money."""
    return {
        "cost_usd": dollars_known(counted, rehearsed=rehearsed),
        "estimated_usd": 0.0 if rehearsed else counted.estimated / NANO,
        "unpriced_tokens": 0 if rehearsed else counted.unpriced,
        "reckoned_usd": counted.cost / NANO,
    }


def _read_fields(view: type[_View], found: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the fields present, as text; the view converts them to flags, numbers and times."""
    read = {name: found.get(_HASH_NAMES.get(name, name)) for name in view.model_fields if name not in _SUMMED}
    return {name: value for name, value in read.items() if value}


def _read_counters(found: Mapping[str, str | None], prefix: str = "") -> Counters:
    return Counters(**{name: int(found.get(prefix + name) or 0) for name in COUNTERS})
