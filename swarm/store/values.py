"""Arguments and answers of the store's steps: one value for each outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from swarm.agent.spec import AgentSpec
from swarm.core.errors import MessageRefused
from swarm.core.settings import BOARD_MIB, MEMORY_MIB, PAD_MIB
from swarm.core.usage import NANO as NANO
from swarm.core.usage import Counters as Counters
from swarm.mailbox import MAX_UNREAD, Kind
from swarm.store.slots import InLine, Slot

NOT_LIVE = "only a live agent of the job can do this"
"""The reason for refusing any step on behalf of an agent."""


@dataclass(frozen=True)
class JobPermissions:
    """The permissions of a job's agents besides those of their definitions."""

    rules: str
    """The rules submitted with the job, as JSON; empty for none."""
    added: Sequence[str]
    """The rules that approvals have added since, each as JSON."""
    ask_seconds: float
    """Time to answer a question; 0: no person is available."""


UNBOUNDED = (1 << 30, 1 << 30)
"""More MiB than an agent and its job ever have."""


@dataclass(frozen=True)
class Claim:
    """The right to run one segment of an agent."""

    agent_id: str
    generation: int
    spec: AgentSpec
    deadline: float | None
    """The job's time limit (Unix seconds), if it has one."""
    unread: int = 0
    """Messages in the mailbox beyond the journal's cursor."""
    length: int | None = None
    """Number of journal entries at the claim."""
    clock: Callable[[], float] = time.time
    """The server's clock."""
    definitions: str = ""
    """The digest of the job's definitions."""
    permissions: JobPermissions | None = None
    """The job's permissions at the claim."""
    began_at: float | None = None
    """Start of the agent's first segment."""
    documents: Mapping[str, str] = field(default_factory=dict)
    """Digests of the job's other documents by name: `instructions` (if they are not switched off), `servers`."""
    slot: Slot | None = None
    """The slot that the agent was woken for, if any."""
    opens: str = ""
    """The prefix of the agent's requests, if others wait for its first reply to begin."""
    wanted: str = ""
    """The conversation summary that a person wants, as JSON."""
    chosen: str = ""
    """The model that a person wants, as JSON."""

    def now(self) -> float:
        """The server's time in Unix seconds; every decision uses it, because a worker's clock may be wrong."""
        return self.clock()


@dataclass(frozen=True)
class Hint:
    """Wake-up data of an agent, from its record and its job's."""

    agent: str
    state: str
    job: str
    parent: str | None
    depth: int
    generation: int
    definition: str
    label: str
    max_depth: int
    needs: str
    """The worker capabilities that the agent needs, as JSON."""
    carried: bool
    """The agent's files are on its last host, and can be brought to others."""

    @classmethod
    def read(cls, answer: Sequence[Any]) -> Hint | None:
        """Decode a step's answer; None for a missing agent."""
        agent, state, job, parent, depth, generation, definition, label, needs, max_depth, files = answer
        if job is None or max_depth is None:
            return None
        about = (agent, state, job, parent or None, int(depth), int(generation), definition, label, int(max_depth))
        return cls(*about, needs or "{}", files == "carried")


@dataclass(frozen=True)
class Refused:
    """A claim that was refused; `why` is the agent's state, `capped`, `unknown`, `contradicted`, `unreadable` (a newer worker made it),
    or `wants` (its needs must be checked first)."""

    why: str


@dataclass(frozen=True)
class Continuation:
    """More work for an existing child, with its whole context and its id."""

    agent_id: str
    prompt: str
    background: bool


DELIVERIES_AT_ONCE = 200
"""Maximum receivers of one step, so that it does not block the server for long."""


class OutgoingMessage(BaseModel):
    """A message to send; the runtime writes the sender, never the sender itself."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    job: str
    sender: str = Field(serialization_alias="from")
    name: str
    kind: Kind
    body: str
    reply_to: str = ""
    request: str = ""
    """The id of the request that the message opens."""
    expires: float = 0.0
    """Seconds in which that request can be answered."""
    approve: bool = False
    live_only: bool = False
    """Do not resume a receiver that has ended."""
    once: str = ""
    """The broadcast that the message belongs to; each receiver gets it once."""
    token: str = ""
    """Identifies a message from outside, so that one sent again after a broken connection is a repeat."""
    max_unread: int = MAX_UNREAD
    most: tuple[int, int] = UNBOUNDED
    """The most MiB of a mailbox, and of all mailboxes of the job; a person's message has no such bound."""
    to: Sequence[str] = ()
    """The receivers' ids."""
    entry: str = ""
    """The journal entry with the result of the agent's call; empty while further parts of the broadcast follow."""


@dataclass(frozen=True)
class Piece:
    """Some words of an unfinished reply."""

    block: int
    type: str
    """`text`, `thinking`, or `tool`: the input of a call, as JSON."""
    name: str
    """The tool's name."""
    begin: int
    """Offset in the block, in UTF-16 units."""
    text: str


@dataclass(frozen=True)
class Signals:
    """A step's signals to the fleet: agents to publish and agents to stop."""

    publish: Sequence[Sequence[Any]] = ()
    """Wake-up data for `Hint.read`, which begins with the agent's id."""
    kill: Sequence[str] = ()
    rest: Sequence[str] = ()
    """Jobs with unfinished endings: see `JobStore.settle`."""


@dataclass(frozen=True)
class Submitted:
    """A job and its root agent exist."""

    new: bool
    """False: an earlier submission of the same ids made the job."""
    order: str
    """The digest of the order that made the job; empty if it has none."""
    effect: Signals


@dataclass(frozen=True)
class Appended:
    """Entries were appended to the journal."""

    unread: int | None
    """The agent's number of unread messages; None if it was not looked up."""
    effect: Signals
    """Signals for agents that the settlement lets continue."""
    wanted: str | None = None
    """A person's request for a summary, as JSON; None if it was not looked up."""
    slot: Slot | InLine | None = None
    """The answer to the request for a slot; None if there was none, or it was not looked up."""
    full: Literal["", "agent", "job"] = ""
    """The owner of journals without room for further turns."""
    chosen: str = ""
    """The model that a person wants, as JSON."""


@dataclass(frozen=True)
class Sent:
    """Messages were sent."""

    effect: Signals
    unread: int | None
    """The sender's number of unread messages; None if it was not looked up."""
    count: int
    """Number of sent messages, from the first on."""
    ids: Sequence[str] = ()
    """The last message's ids in the mailboxes, in the order of its receivers."""
    refusal: MessageRefused | None = None
    """The reason why the next message was refused, if one was. A repeated step does not know it."""


@dataclass(frozen=True)
class Rescue(Signals):
    """The result of a sweep."""

    rescued: Sequence[str] = ()
    quarantined: Sequence[str] = ()


@dataclass(frozen=True)
class SweepTurn:
    """The answer to a worker that asks to sweep."""

    is_mine: bool
    next_end: float | None
    """Seconds until the next lease expires unless renewed; None: no agent is running."""
    effect: Signals = Signals()
    """Work that waited for room in Redis and goes on."""


@dataclass(frozen=True)
class OutputBounds:
    """Most bytes of kept outputs, of an agent and of all agents of its job."""

    agent: int
    job: int


@dataclass(frozen=True)
class Most:
    """Most MiB of a job's board, of its scratchpad, and of one memory store."""

    board: int = BOARD_MIB
    pad: int = PAD_MIB
    memory: int = MEMORY_MIB


@dataclass(frozen=True)
class KeptOutput:
    """The answer to an agent that keeps an output."""

    dropped: Sequence[str] = ()
    """Keys of older outputs that made room."""
    over: Literal["", "agent", "job", "Redis"] = ""
    """The bound that left no room, if the output was not kept."""
    bound: int = 0
    """That bound in bytes."""


@dataclass(frozen=True)
class GoOn:
    """The condition for parking already holds."""

    why: Literal["children", "tasks", "time", "mail", "answer", "budget", "batch", "slot", "model", "nothing"]
    """`nothing`: the agent asked to rest, but no child is at work for it."""
    chosen: str = ""
    """With `model`: a person's choice of another one, as JSON."""


@dataclass(frozen=True)
class NotSpawned:
    """No child was made, for this reason; the caller may ask again for fewer."""

    why: Literal["limit", "children", "depth", "full", "name", "resume", "team"]
    child: str = ""
    """The child with a taken name, that cannot continue, or that would need a team."""
    detail: str = ""
    """The taken name, or the state of a child that cannot continue; empty if the child is not the caller's."""
    room: int = 0
    """Remaining number of agents for the job, or for this parent."""


@dataclass(frozen=True)
class Reservation:
    """A model call's minimum use, its spare use beyond that, and that of a last reply after it. Costs are nano-dollars."""

    tokens: int
    cost: int
    spare_tokens: int = 0
    spare_cost: int = 0
    closing_tokens: int = 0
    closing_cost: int = 0


@dataclass(frozen=True)
class Granted:
    """A call may be made."""

    used: float
    """The used share of the tightest limit."""
    part: float
    """The granted part of the spare amount, 0 … 1."""


@dataclass(frozen=True)
class Busy:
    """Reservations of other calls hold the amounts that the call needs."""

    tokens: int
    cost: int


@dataclass(frozen=True)
class OutOfBudget:
    """A reservation that does not fit. Amounts are tokens, or nano-dollars for `budget`."""

    name: Literal["tokens", "budget", "allowance"]
    limit: int
    used: int


def normal_role(role: str) -> str:
    """Normalize a role for comparison: `Test Writer` and `test writer` are equal."""
    return " ".join(role.split()).lower()
