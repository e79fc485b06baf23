"""The journal's entries: everything an agent has lived, append-only, the only state it has.

A journal is a Redis Stream whose entry ids the writer chooses (`1-0`, `2-0`, …); the stream refuses an id that exists, which
makes every append a compare-and-append. Each entry is one JSON document with a `kind` and a version `v`. A worker refuses a
kind or version it does not know (`JournalError`) and leaves the agent to a newer worker.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from swarm.agent.journaled import Condition, Journaled
from swarm.agent.spec import AgentSpec
from swarm.core.errors import JournalError
from swarm.core.plain import clean
from swarm.core.records import EndState, VerdictView
from swarm.definitions.model import PermissionMode
from swarm.models import Block, Usage


class Started(Journaled):
    """The first entry: what the agent is, and the frozen prefix of all its requests."""

    kind: Literal["started"] = "started"
    spec: AgentSpec
    system: str = ""
    tools: list[dict[str, Any]] = []
    """Both are empty for a fork, which has its parent's."""
    kinds: dict[str, Literal["look", "idempotent"]] = {}
    """By name, tools of MCP servers whose calls are no effects, as those say that the job believes."""
    prefix: str = ""
    """The hash that `system` and `tools` are stored under, with the job; the store fills both in when it reads the entry."""
    instructions: str = ""
    """The hash of the job's instruction files, if the agent was given them …"""
    guidance: str = ""
    """… and what they say, which its first message begins with; the store fills it in."""


class Redefined(Started):
    """Its job was given other definitions after it had begun: what all further requests begin with. The conversation stays."""

    kind: Literal["redefined"] = "redefined"  # type: ignore[assignment]


class Prompt(Journaled):
    """Text put into the conversation as the user's turn: by a person, a parent, or the runtime itself."""

    kind: Literal["prompt"] = "prompt"
    text: str
    purpose: Literal["task", "continue", "warning", "final_answer", "schema", "coordination"] = "task"
    """`final_answer` asks for a final reply without tools; the run ends with it. `schema` sends an answer back that is not valid,
    `coordination` an end that comes too early."""
    limit: Literal["", "turns", "tokens", "budget", "time", "context"] = ""
    """Which limit a warning or the request for last words is about; `context`: the conversation no longer fits the model."""


class Assistant(Journaled):
    """One whole reply of the model."""

    kind: Literal["assistant"] = "assistant"
    content: list[Block]
    stop_reason: str
    usage: Usage
    cost_usd: float = 0.0
    model: str
    request_id: str | None = None
    request_sha: str = ""
    """SHA-256 of the request's body, in hexadecimal."""
    duration_seconds: float = 0.0


class ModelFailed(Journaled):
    """An attempt to call the model failed. Consecutive ones are counted; a reply ends the count."""

    kind: Literal["model_failed"] = "model_failed"
    error: str
    error_kind: str
    permanent: bool
    retry_at: float = 0.0
    """Not before this time (Unix seconds)."""
    away_since: float = 0.0
    """Since when the model has been away (Unix seconds); 0: it answers, but wants us to wait."""


class ToolStarted(Journaled):
    """A call with effects is about to run. Without a `tool_finished` after it, it may have taken effect."""

    kind: Literal["tool_started"] = "tool_started"
    tool_use_id: str


class ToolFinished(Journaled):
    """The result of one call."""

    kind: Literal["tool_finished"] = "tool_finished"
    tool_use_id: str
    text: str
    is_error: bool = False
    blocks: list[Block] | None = None
    instructions: list[str] = []
    """The sources of the instruction files whose text follows what the call returned."""
    files: dict[str, int] = {}
    """Files the call read or wrote: resolved path → modification time (ns) as the agent knows it."""
    denied: str = ""
    """Why the call was not run, if it was denied: by what rule, or about what."""
    commit: str = ""
    """What the workspace holds after the call, where that is known; with the work of agents that the call has merged."""
    servers: dict[str, str] = {}
    """The MCP server that carried the call out → which start of it that was."""
    usage: Usage | None = None
    """Of requests that the tool made of a model."""
    cost_usd: float = 0.0
    duration_seconds: float = 0.0


class Spawned(Journaled):
    """Children that exist, or go on: tool_use id → agent id. Written in the same atomic step that makes them."""

    kind: Literal["spawned"] = "spawned"
    children: dict[str, str]
    notes: dict[str, str] = {}
    """tool_use id → what its result is to begin with."""
    background: list[str] = []
    """The tool_use ids of those whose end is not waited for."""
    commit: str = ""
    """What the workspace held then, if any of them got a copy of it."""


class Mail(Journaled):
    """Messages taken in, and the cursor that says so."""

    kind: Literal["mail"] = "mail"
    text: str
    """The messages as they enter the conversation, rendered and escaped."""
    cursor: str
    ids: list[str] = []


class Exchanged(Journaled):
    """A message that a program was given while it ran, or that it sent; in the same step as the mailbox that it left or reached."""

    kind: Literal["exchanged"] = "exchanged"
    text: str
    to: str = ""
    """Whom it was sent to …"""
    cursor: str = ""
    """… or how far the agent's mailbox is taken in with it."""


class Parked(Journaled):
    """The process was given back until the condition holds."""

    kind: Literal["parked"] = "parked"
    condition: Condition
    tool_use_id: str = ""
    """The call that waits, if it is one."""


class Answered(Journaled):
    """The answer about a call that a person, or a lead, was asked about; also that there was none."""

    kind: Literal["answered"] = "answered"
    tool_use_id: str
    allowed: bool
    reason: str = ""
    """The words that go with it: why not, feedback on a plan, the answer to a question."""
    by: str = ""
    mode: PermissionMode | None = None
    """The permission mode that holds from now on."""
    plan: str = ""
    """A plan about which nobody could be asked: it is the agent's answer."""


class Ruled(Journaled):
    """What a small model said of a call that its agent's mode would have a person asked about (the mode `auto`)."""

    kind: Literal["ruled"] = "ruled"
    tool_use_id: str
    answer: Literal["allow", "deny", "ask"]
    """`ask`: the person is asked."""
    reason: str
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float = 0.0


class Grading(Journaled):
    """A grader exists. Written in the same atomic step that makes it."""

    kind: Literal["grading"] = "grading"
    grader: str
    """Its agent id."""
    attempt: int
    number: int = 1
    """The how manyeth of this attempt: one that ends without a verdict has a successor."""


class Verdict(Journaled, VerdictView):
    """A check, or a grader, has spoken about the work that was handed in."""

    kind: Literal["verdict"] = "verdict"
    report: str = ""
    """A check's output, cut; a grader's findings."""
    duration_seconds: float = 0.0
    text: str = ""
    """What enters the conversation, so that the agent goes on; empty if it does not."""


class Compacted(Journaled):
    """From here on requests hold a summary in place of what was said before; the journal keeps all of it.

    After the summary comes `state`, which was rendered from records and is true whatever the summary says.
    """

    kind: Literal["compacted"] = "compacted"
    form: Literal["block", "text", "bare"]
    """`block`: the API's own, which alone can be followed by what was said after it. `text`: a message. `bare`: there is none."""
    kept: int = 0
    """How many of the last replies stay in the conversation, with all that follows the first of them; of a `block` only."""
    through: int = 0
    """The number of the last entry that the summary stands for; 0: it lies in the journal that a fork began with."""
    block: Block | None = None
    summary: str = ""
    state: str
    trigger: Literal["auto", "manual", "overflow"] = "auto"
    focus: str = ""
    asked: str = ""
    """Of the request by a person that it carries out."""
    tokens_before: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    model: str = ""
    request_id: str | None = None
    request_sha: str = ""
    duration_seconds: float = 0.0
    folded: dict[str, Any] | None = None
    """What the journal amounts to with this entry (`swarm.agent.snapshot`): whoever understands it need not read what lies before."""


class CompactionFailed(Journaled):
    """No summary came about; it may have cost something."""

    kind: Literal["compaction_failed"] = "compaction_failed"
    error: str
    error_kind: str
    trigger: Literal["auto", "manual", "overflow"] = "auto"
    asked: str = ""
    usage: Usage = Usage()
    cost_usd: float = 0.0
    model: str = ""
    request_id: str | None = None


class HooksBegun(Journaled):
    """Hooks of an event are about to run. Without a `hooked` of it they may have run, and are not run again."""

    kind: Literal["hooks_begun"] = "hooks_begun"
    event: str
    """Its id: the event's name, and what it is about."""


HookOutcome = Literal["ok", "refused", "failed", "timed_out", "interrupted", "not_run"]


class HookRun(BaseModel):
    """What became of one hook."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    label: str
    """The command or the address, cut."""
    origin: str
    source: str
    outcome: HookOutcome
    why: str = ""
    """In a line, for people."""
    duration_seconds: float = 0.0


class Hooked(Journaled):
    """What the hooks of an event said. It takes effect by this entry, and by nothing else."""

    kind: Literal["hooked"] = "hooked"
    event: str
    name: str
    tool_use_id: str = ""
    """The call that it is about, if it is about one."""
    runs: list[HookRun]
    decision: Literal["", "allow", "ask", "deny", "block"] = ""
    reason: str = ""
    input: dict[str, Any] | None = None
    """What the call is given in place of what the model gave it."""
    output: str | None = None
    """What the model reads as the call's result, in place of it."""
    text: str = ""
    """What enters the conversation; of `PreCompact`: what the summary must hold."""
    stop: str = ""
    """The run ends, for this reason."""
    said: str = ""
    """For people."""
    commit: str = ""
    """What the workspace holds after them, where that is known."""

    @property
    def changed(self) -> bool:
        """Whether anything is otherwise because of it."""
        return bool(self.decision or self.stop or self.text) or self.input is not None or self.output is not None


class Resumed(Journaled):
    """After its end the agent goes on, in another run: somebody wrote to it. The message follows as mail."""

    kind: Literal["resumed"] = "resumed"


class Replayed(Journaled):
    """All before this it has lived in another job: here it goes on, with its limits anew."""

    kind: Literal["replayed"] = "replayed"


class Finished(Journaled):
    """The end of a run: the last entry, unless the agent is resumed."""

    kind: Literal["finished"] = "finished"
    state: EndState
    text: str = ""
    """The answer; may hold partial work when the state is not `completed`."""
    reason: str = ""
    """Why, when it is not `completed`."""
    data: Any = None
    """The answer as data, when a schema was asked for: what `text` holds, parsed and valid."""
    stopped_at: Literal["", "turns", "tokens", "budget", "time", "context"] = ""
    """The limit that ended it."""
    commit: str = ""
    """What the workspace holds at the end, if it is the agent's own."""


_OfTalk = Started | Prompt | Assistant | ModelFailed | Mail | Exchanged | Compacted | CompactionFailed
_OfCalls = ToolStarted | ToolFinished | Spawned | Answered | Ruled | HooksBegun | Hooked
_OfRuns = Redefined | Parked | Grading | Verdict | Resumed | Replayed | Finished
Entry = Annotated[_OfTalk | _OfCalls | _OfRuns, Field(discriminator="kind")]

_ADAPTER: TypeAdapter[Entry] = TypeAdapter(Entry)


def encode_entry(entry: Entry) -> str:
    """An entry as it is stored. There is none that cannot be: see `swarm.core.plain`."""
    return clean(entry).model_dump_json()


def decode_entry(data: str | bytes, *, agent_id: str, number: int) -> Entry:
    """Read one stored entry.

    Raises `JournalError`, naming agent and entry, for a kind or version this code does not know.
    """
    try:
        return _ADAPTER.validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise JournalError(
            f"agent {agent_id}: journal entry {number} cannot be read ({first['msg']}); "
            f"it was probably written by a newer version of swarm: upgrade this worker"
        ) from error
