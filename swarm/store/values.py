"""What the store's steps are given and answer: values, each for one outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.agent.spec import AgentSpec
from swarm.core.errors import MessageRefused
from swarm.core.records import NANO as NANO
from swarm.core.records import Counters as Counters
from swarm.core.records import Usage
from swarm.mailbox import MAX_UNREAD, Kind
from swarm.store.slots import InLine, Slot

NOT_LIVE = "only a live agent of the job can do this"
"""Why a step on behalf of an agent was refused, whatever it was to do."""


@dataclass(frozen=True)
class JobPermissions:
    """What a job's agents may do beside what their definitions say."""

    rules: str
    """The rules that it was submitted with, as JSON; empty for none."""
    added: Sequence[str]
    """Those that approvals have added since, as JSON each."""
    ask_seconds: float
    """How long its questions can be answered; 0: nobody is there."""


@dataclass(frozen=True)
class Claim:
    """The right to run one segment of an agent."""

    agent_id: str
    generation: int
    spec: AgentSpec
    deadline: float | None
    """When the job must be over (Unix seconds), if it has a limit."""
    unread: int = 0
    """Messages in its mailbox beyond the journal's cursor."""
    length: int | None = None
    """How many entries its journal had then."""
    clock: Callable[[], float] = time.time
    """The server's clock."""
    definitions: str = ""
    """The digest of the definitions that travel with its job."""
    permissions: JobPermissions | None = None
    """What its job permitted then."""
    began_at: float | None = None
    """When its first segment began."""
    documents: Mapping[str, str] = field(default_factory=dict)
    """The digests of what else travels with its job, by what it is: `instructions` (if they are not switched off), `servers`."""
    slot: Slot | None = None
    """What it was woken for, if that is the fleet's share of the model."""
    opens: str = ""
    """The prefix of its requests, if others wait for its first reply to begin."""

    def now(self) -> float:
        """The server's time, Unix seconds: the only one that decides anything, however wrong a worker's own is."""
        return self.clock()


@dataclass(frozen=True)
class Hint:
    """What a wake-up says of an agent, from its record and its job's."""

    state: str
    job: str
    parent: str | None
    depth: int
    generation: int
    definition: str
    label: str
    max_depth: int
    needs: str
    """What its worker must have, as JSON."""
    carried: bool
    """Its files are on the host that it ran on last, and can be brought to others."""


@dataclass(frozen=True)
class Refused:
    """The agent is not to be run now; `why` is its state, `capped`, `unknown`, `contradicted`, `unreadable` (a newer worker made it),
    or `wants`: what it needs is to be looked at first."""

    why: str


@dataclass(frozen=True)
class Continuation:
    """More work for a child that exists: with its whole context, under its id."""

    agent_id: str
    prompt: str
    background: bool


DELIVERIES_AT_ONCE = 200
"""Receivers of one step, which may not keep the server busy for long."""


class OutgoingMessage(BaseModel):
    """A message about to be sent; who it is from is written here by the runtime, never by the sender."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    job: str
    sender: str = Field(serialization_alias="from")
    name: str
    kind: Kind
    body: str
    reply_to: str = ""
    request: str = ""
    """The id of the request that it opens …"""
    expires: float = 0.0
    """… which can be answered for so many seconds."""
    approve: bool = False
    live_only: bool = False
    """Do not resume a receiver that has ended."""
    once: str = ""
    """Of a part of a broadcast: which one. Nobody is sent it twice."""
    token: str = ""
    """From outside: what tells a repeat of this letter, sent again after a broken connection, from another one."""
    max_unread: int = MAX_UNREAD
    to: Sequence[str] = ()
    """The ids of its receivers."""
    entry: str = ""
    """From an agent: the result of its call, as its journal keeps it; empty while further parts of the broadcast follow."""


@dataclass(frozen=True)
class Piece:
    """Some words of a reply in the making."""

    block: int
    type: str
    """`text`, `thinking`, or `tool`: the input of a call, as JSON."""
    name: str
    """The tool's."""
    begin: int
    """Where in its block they begin, in UTF-16 units."""
    text: str


@dataclass(frozen=True)
class Signals:
    """What the caller must tell the fleet after a step: whom to publish, whom to stop."""

    publish: Sequence[str] = ()
    kill: Sequence[str] = ()
    rest: Sequence[str] = ()
    """Jobs in which an end has left something to do: see `Store.settle`."""


@dataclass(frozen=True)
class Submitted:
    """A job is there with its root agent."""

    new: bool
    """False: an earlier submission of the same ids made it."""
    order: str
    """What tells the order that made it from others; empty if nothing does."""
    effect: Signals


@dataclass(frozen=True)
class Appended:
    """Entries are in the journal."""

    unread: int | None
    """How many messages the agent has not read; None when it was not looked up."""
    effect: Signals
    """Those who waited for what was settled go on."""
    wanted: str | None = None
    """The summary that a person wants, as JSON; None when it was not looked up."""
    slot: Slot | InLine | None = None
    """What became of the wish for one; None: there was none, or it was not looked up."""


@dataclass(frozen=True)
class Sent:
    """Messages were delivered."""

    effect: Signals
    unread: int | None
    """How many messages the sender itself has not read; None when it was not looked up."""
    count: int
    """How many, from the first on."""
    ids: Sequence[str] = ()
    """The last one's ids in the mailboxes, in the order of its receivers."""
    refusal: MessageRefused | None = None
    """Why the next one was not, if there is one. A step that was repeated does not know."""


@dataclass(frozen=True)
class Rescue(Signals):
    """What a sweep found."""

    rescued: Sequence[str] = ()
    quarantined: Sequence[str] = ()


@dataclass(frozen=True)
class SweepTurn:
    """What a worker learns that wants to sweep."""

    is_mine: bool
    next_end: float | None
    """In how many seconds the next lease runs out, unless it is renewed; None: nobody runs."""


@dataclass(frozen=True)
class GoOn:
    """What an agent wanted to park for holds already."""

    why: Literal["children", "tasks", "time", "mail", "answer", "budget", "slot", "nothing"]
    """`nothing`: it wanted to rest, and nobody is at work for it any more."""


@dataclass(frozen=True)
class NotSpawned:
    """No child was made, because of this; the caller may ask again for fewer."""

    why: Literal["limit", "children", "depth", "name", "resume", "team"]
    child: str = ""
    """The child whose name is taken, that cannot go on, or that would need a team."""
    detail: str = ""
    """The name that is taken; the state of the child that cannot go on, empty when it is nobody's or another's."""
    room: int = 0
    """How many more agents the job, or this parent, may have."""


@dataclass(frozen=True)
class Reservation:
    """What a call of the model takes at least, beyond that at most, and what a last reply after it would. Costs are nano-dollars."""

    tokens: int
    cost: int
    spare_tokens: int = 0
    spare_cost: int = 0
    closing_tokens: int = 0
    closing_cost: int = 0


@dataclass(frozen=True)
class Granted:
    """A call can be made."""

    used: float
    """The share of the tightest limit that is used."""
    part: float
    """How much of what was to spare was granted, 0 … 1."""


@dataclass(frozen=True)
class Busy:
    """What a call takes is held by calls of others that are under way."""

    tokens: int
    cost: int


@dataclass(frozen=True)
class OutOfBudget:
    """A reservation that does not fit. Amounts are tokens, or nano-dollars for `budget`."""

    name: Literal["tokens", "budget"]
    limit: int
    used: int


def normal_role(role: str) -> str:
    """A role as it is compared: `Test Writer` and `test writer` are one."""
    return " ".join(role.split()).lower()


def reply_counters(usage: Usage, cost: float, *, turns: int) -> Counters:
    """What a call adds to the agent's and the job's sums."""
    return Counters(
        turns=turns,
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_write=usage.cache_creation_input_tokens,
        cache_read=usage.cache_read_input_tokens,
        cost=round(cost * NANO),
    )
