"""The journal's entries: everything that an agent has done, append-only, its only state.

A journal is a Redis Stream whose entry ids the writer chooses (`1-0`, `2-0`, …); the stream refuses an id that exists, which
makes every append a compare-and-append. Each entry is one JSON document with a `kind` and its format, `v`. A worker refuses a
kind or format it does not know (`JournalError`) and leaves the agent to a newer worker.
"""

from __future__ import annotations

from operator import not_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from swarm.agent.journaled import Condition, Journaled
from swarm.agent.spec import AgentSpec
from swarm.core.errors import JournalError
from swarm.core.formats import NewerFormat, read_document
from swarm.core.records import EndState, VerdictView
from swarm.core.usage import Charge
from swarm.definitions.model import PermissionMode
from swarm.models import Block
from swarm.models.facts import ModelFacts


class Started(Journaled):
    """The first entry: the agent's spec and the frozen prefix of all its requests."""

    kind: Literal["started"] = "started"
    spec: AgentSpec
    system: str = ""
    tools: list[dict[str, Any]] = []
    """Empty for a fork, like `system`: it has its parent's."""
    kinds: dict[str, Literal["look", "idempotent"]] = {}
    """Kinds of MCP tools without effects, by name, as declared by the servers that the job trusts."""
    offers: dict[str, str] = {}
    """MCP server → digest of its list of tools that the agent's own tools follow."""
    prefix: str = ""
    """Hash under which the job stores `system` and `tools`; the store fills both in when it reads the entry."""
    instructions: str = ""
    """Hash of the job's instruction files, if the agent was given them."""
    guidance: str = ""
    """Their text, with which the first message begins; the store fills it in."""


class Redefined(Started):
    """The job's definitions changed after the agent began. Further requests begin with this prefix."""

    kind: Literal["redefined"] = "redefined"  # type: ignore[assignment]


class Prompt(Journaled):
    """Text put into the conversation as the user's turn: by a person, a parent, or the runtime itself."""

    kind: Literal["prompt"] = "prompt"
    text: str
    purpose: Literal["task", "continue", "warning", "final_answer", "schema", "coordination"] = "task"
    """`final_answer` asks for a final reply without tools, which ends the run. `schema` sends an invalid answer back, `coordination` an end
    that comes too early."""
    limit: Literal["", "turns", "tokens", "budget", "time", "context", "space"] = ""
    """The limit that a warning or final answer is about; `context`: the conversation no longer fits the model."""


class Assistant(Journaled, Charge):
    """One whole reply of the model."""

    kind: Literal["assistant"] = "assistant"
    content: list[Block]
    stop_reason: str
    request_id: str | None = None
    request_sha: str = ""
    """SHA-256 of the request's body, in hexadecimal."""
    facts: ModelFacts | None = None
    """Told facts about the model that shaped the request."""
    duration_seconds: float = 0.0
    beside: tuple[Charge, ...] = Field(default=(), exclude_if=not_)
    """Charges of other models, of requests that a harness made beside its conversation."""


class ModelFailed(Journaled, Charge):
    """An attempt to call the model failed. Consecutive ones are counted; a reply ends the count.

    Its charge is what a reply cost that was cut, or lost with its worker. In the latter case the step that notices this writes the entry.
    """

    kind: Literal["model_failed"] = "model_failed"
    error: str
    error_kind: str
    permanent: bool
    retry_at: float = 0.0
    """Earliest time of the next attempt (Unix seconds)."""
    away_since: float = 0.0
    """When the model became unavailable (Unix seconds); 0: it answers, but asks for a wait."""


SwitchReason = Literal["overloaded", "gone", "forbidden", "chosen", "new run"]
"""Why an agent asks another model: the last one was overloaded or unreachable, is unknown to its server, or may not be used; a person chose
another one; or a new run begins with the first model of the chain again."""


class Switched(Journaled):
    """The agent asks another model from its next request on, for the rest of its run; the conversation stays as it is.

    With equal `model` and `was`, a person chose the model in use for later runs, too; or one that cannot be used (`passed_over`), and
    nothing changes.
    """

    kind: Literal["switched"] = "switched"
    model: str
    """Full id of the new model."""
    was: str
    """Full id of the last one."""
    reason: SwitchReason
    why: str = ""
    """The last model's failure, or the person's name."""
    asked: str = ""
    """Id of the person's choice."""
    passed_over: dict[str, str] = {}
    """Models of the chain that could not take over, and why."""


class ToolStarted(Journaled):
    """A call with effects is about to run. Without a `tool_finished` after it, it may have taken effect."""

    kind: Literal["tool_started"] = "tool_started"
    tool_use_id: str


class ToolFinished(Journaled, Charge):
    """The result of one call; its charge is that of the model requests that the tool made."""

    kind: Literal["tool_finished"] = "tool_finished"
    tool_use_id: str
    text: str
    is_error: bool = False
    blocks: list[Block] | None = None
    instructions: list[str] = []
    """Sources of the instruction files whose text follows the call's result."""
    files: dict[str, int] = {}
    """Files that the call read or wrote: resolved path → modification time (ns)."""
    denied: str = ""
    """The rule that denied the call, or the call's subject; empty if it ran."""
    commit: str = ""
    """Commit of the workspace after the call, where known; includes the work of agents that the call merged."""
    servers: dict[str, str] = {}
    """MCP server that carried the call out → number of its start."""
    duration_seconds: float = 0.0
    beside: tuple[Charge, ...] = Field(default=(), exclude_if=not_)
    """Charges of other models, of the agents that a harness's call started."""


class Spawned(Journaled):
    """Children started or continued (tool_use id → agent id). Written in the step that makes them."""

    kind: Literal["spawned"] = "spawned"
    children: dict[str, str]
    notes: dict[str, str] = {}
    """tool_use id → first line of its result."""
    background: list[str] = []
    """tool_use ids of the children that are not waited for."""
    commit: str = ""
    """Commit of the workspace then, if a child got a copy of it."""


class Mail(Journaled):
    """Messages taken in, and the new cursor."""

    kind: Literal["mail"] = "mail"
    text: str
    """The messages as they enter the conversation, rendered and escaped."""
    cursor: str
    ids: list[str] = []


class Exchanged(Journaled):
    """A running program's message, received or sent. Written in the mailbox's own step."""

    kind: Literal["exchanged"] = "exchanged"
    text: str
    to: str = ""
    """Receiver of a sent message."""
    cursor: str = ""
    """New cursor of the agent's mailbox after a received message."""


class Note(BaseModel):
    """A workflow's words for people: a phase that begins, a line of its log, or its progress (`3 of 9`)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Literal["phase", "log", "progress"]
    text: str


class Advanced(Journaled):
    """A workflow's program continued. It reads the time (`at`) and the job's use from this entry."""

    kind: Literal["advanced"] = "advanced"
    calls: list[Block] = []
    """The program's new calls, in order."""
    dropped: list[str] = []
    """tool_use ids of calls whose result it no longer awaits."""
    notes: list[Note] = []
    spent_usd: float = 0.0
    spent_tokens: int = 0
    allowances: dict[str, float] = Field(default={}, exclude_if=not_)
    """Dollars that agents have used of each allowance that the program has given."""


class Parked(Journaled):
    """The agent released its process until the condition holds."""

    kind: Literal["parked"] = "parked"
    condition: Condition
    tool_use_id: str = ""
    """The waiting call, if any."""


class Answered(Journaled):
    """The answer of a person or a lead about a call, or the fact that none came."""

    kind: Literal["answered"] = "answered"
    tool_use_id: str
    allowed: bool
    reason: str = ""
    """The reason for a refusal, feedback on a plan, or the answer to a question."""
    by: str = ""
    mode: PermissionMode | None = None
    """The new permission mode."""
    plan: str = ""
    """A plan that no one could approve: it becomes the agent's answer."""


class Ruled(Journaled, Charge):
    """A small model's ruling on a call that would else be put to a person (the mode `auto`)."""

    kind: Literal["ruled"] = "ruled"
    tool_use_id: str
    answer: Literal["allow", "deny", "ask"]
    """`ask`: ask the person."""
    reason: str


class Grading(Journaled):
    """A grader was started. Written in the atomic step that makes it."""

    kind: Literal["grading"] = "grading"
    grader: str
    """The grader's agent id."""
    attempt: int
    number: int = 1
    """Number of the grader in this attempt: one that ends without a verdict has a successor."""


class Verdict(Journaled, VerdictView):
    """The verdict of a check or a grader on the submitted work."""

    kind: Literal["verdict"] = "verdict"
    report: str = ""
    """A check's output, cut, or a grader's findings."""
    duration_seconds: float = 0.0
    text: str = ""
    """Text for the conversation, so that the agent continues; empty if it ends."""


class Compacted(Journaled, Charge):
    """A summary replaces the earlier conversation in requests; the journal keeps all of it.

    After the summary comes `state`, which is rendered from records and correct whatever the summary says.
    """

    kind: Literal["compacted"] = "compacted"
    form: Literal["block", "text", "bare"]
    """`block`: the API's own, which alone can be followed by kept replies. `text`: a message. `bare`: no summary."""
    kept: int = 0
    """Number of last replies that stay in the conversation, with everything after the first of them; `block` only."""
    through: int = 0
    """Number of the last entry that the summary covers; 0: it is in the journal that a fork began with."""
    block: Block | None = None
    summary: str = ""
    state: str
    trigger: Literal["auto", "manual", "overflow"] = "auto"
    focus: str = ""
    asked: str = ""
    """Id of the person's request for a summary."""
    tokens_before: int = 0
    request_id: str | None = None
    request_sha: str = ""
    duration_seconds: float = 0.0
    folded: dict[str, Any] | None = None
    """Folded state including this entry (`swarm.agent.snapshot`), so that readers can skip earlier entries."""


class CompactionFailed(Journaled, Charge):
    """An attempt at a summary failed; it may have cost something."""

    kind: Literal["compaction_failed"] = "compaction_failed"
    error: str
    error_kind: str
    trigger: Literal["auto", "manual", "overflow"] = "auto"
    asked: str = ""
    request_id: str | None = None


class HooksBegun(Journaled):
    """Hooks of an event are about to run. Without a matching `hooked` they are not run again."""

    kind: Literal["hooks_begun"] = "hooks_begun"
    event: str
    """Event id: the event's name and its subject."""


HookOutcome = Literal["ok", "refused", "failed", "timed_out", "interrupted", "not_run"]


class HookRun(BaseModel):
    """The outcome of one hook."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    label: str
    """The command or the address, cut."""
    origin: str
    source: str
    outcome: HookOutcome
    why: str = ""
    """One line for people."""
    duration_seconds: float = 0.0


class Hooked(Journaled, Charge):
    """The results of an event's hooks. They take effect by this entry alone, which also holds the charge of models that they asked."""

    kind: Literal["hooked"] = "hooked"
    event: str
    name: str
    tool_use_id: str = ""
    """The call concerned, if any."""
    runs: list[HookRun]
    decision: Literal["", "allow", "ask", "deny", "block"] = ""
    reason: str = ""
    input: dict[str, Any] | None = None
    """Replacement for the call's input."""
    output: str | None = None
    """Replacement for the call's result."""
    text: str = ""
    """Text for the conversation; of `PreCompact`: content that the summary must hold."""
    stop: str = ""
    """The reason to end the run, if any."""
    profile: str = ""
    """Shell text that runs before each later command of the agent's shell tool."""
    said: str = ""
    """A message for people."""
    commit: str = ""
    """Commit of the workspace after the hooks, where known."""

    @property
    def changed(self) -> bool:
        """Whether the hooks had any consequence."""
        return bool(self.decision or self.stop or self.text) or self.input is not None or self.output is not None


class Resumed(Journaled):
    """The agent continues after its end because of a message, which follows as mail."""

    kind: Literal["resumed"] = "resumed"


class Replayed(Journaled):
    """Earlier entries come from another job. The agent continues here, with fresh limits."""

    kind: Literal["replayed"] = "replayed"


class Finished(Journaled):
    """The end of a run: the last entry, unless the agent is resumed."""

    kind: Literal["finished"] = "finished"
    state: EndState
    text: str = ""
    """The answer; may hold partial work when the state is not `completed`."""
    reason: str = ""
    """Reason, when the state is not `completed`."""
    data: Any = None
    """The answer as data, parsed and valid, when a schema was asked for."""
    stopped_at: Literal["", "turns", "tokens", "budget", "time", "context", "space"] = ""
    """The limit that ended it."""
    commit: str = ""
    """Commit of the workspace at the end, if it is the agent's own."""


_OfTalk = Started | Prompt | Assistant | ModelFailed | Switched | Mail | Exchanged | Compacted | CompactionFailed
_OfCalls = ToolStarted | ToolFinished | Spawned | Answered | Ruled | HooksBegun | Hooked
_OfRuns = Redefined | Advanced | Parked | Grading | Verdict | Resumed | Replayed | Finished
Entry = Annotated[_OfTalk | _OfCalls | _OfRuns, Field(discriminator="kind")]

_ADAPTER: TypeAdapter[Entry] = TypeAdapter(Entry)


def encode_entry(entry: Entry) -> str:
    """Encode an entry in storable form (`swarm.core.plain.clean`) for storage."""
    return entry.model_dump_json()


def decode_entry(data: str | bytes, *, agent_id: str, number: int) -> Entry:
    """Read one stored entry.

    Raises `JournalError`, naming agent and entry, for a kind or format this code does not know.
    """
    try:
        return read_document(_ADAPTER.validate_json, "entry", data)
    except ValidationError as error:
        first = error.errors()[0]
        raise JournalError(
            f"agent {agent_id}: journal entry {number} cannot be read ({first['msg']}); "
            f"a newer version of swarm probably wrote it: upgrade this worker"
        ) from error
    except NewerFormat as error:
        raise JournalError(f"agent {agent_id}: journal entry {number} cannot be read: {error}") from error
