"""The fold: from a journal to what the agent knows, and from that to what it does next. Pure.

`Life.apply` takes in one entry; `next_action` says what comes after. Both depend on nothing but the journal (and which tools
have effects), so the next turn, a restart after a crash and a wake a week later are one code path.

Guarantees: no `tool_use` is ever sent without its `tool_result`; results come first in the user message that answers them;
messages only ever grow at the end, so a request's prefix stays byte for byte what the last request sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any, Literal

from swarm.agent.entries import (
    Answered,
    Assistant,
    Condition,
    Entry,
    Finished,
    Mail,
    ModelFailed,
    Parked,
    Prompt,
    Resumed,
    Spawned,
    Started,
    ToolFinished,
    ToolStarted,
)
from swarm.agent.results import MAX_CORRECTIONS, read_result
from swarm.agent.spec import AgentSpec
from swarm.definitions.model import PermissionMode
from swarm.errors import JournalError
from swarm.models import Block, Usage

MAX_MODEL_FAILURES = 12
"""Consecutive failed attempts at one reply before the agent gives up; with the back-off this spans several minutes."""
MAX_CONTINUATIONS = 3
"""How often a reply that hit its length limit is asked to go on."""

SPAWN_TOOL = "Agent"
SEND_TOOL = "SendMessage"
WAIT_TOOL = "WaitAgents"
WAIT_TOOLS = frozenset({WAIT_TOOL, "BoardWait"})
"""Calls that give the process back until what they wait for has come: they run last, one after the other."""
PEER_TOOLS = frozenset({SEND_TOOL, "ListAgents", "StopAgent", "TeamDelete"})
"""Calls about other agents: they run after the `Agent` calls of the same reply, in the order in which they were made."""
ORDERED_TOOLS = frozenset(
    (
        *("TeamCreate", "BoardAdd", "BoardClaim", "BoardUpdate", "BoardComplete"),
        *("ScratchpadWrite", "ScratchpadAppend"),
    )
)
"""Calls that change what agents share. They may be repeated, since a repeat changes nothing more, but each waits for the one before."""

INTERRUPTED_TEXT = (
    "This call was interrupted while it ran (its worker stopped). It may have taken effect, wholly or in part. "
    "It was not run again. Check its effects before you repeat it."
)
CUT_OFF_TEXT = (
    "This call was not run: the reply was cut off at its length limit. Make the call again, in smaller parts."
)
FORKED_TEXT = "This call went to the agent that you were forked from. You are the fork: your own task follows."
CONTINUE_TEXT = "Your reply was cut off at its length limit. Go on exactly where it stopped."


@dataclass
class Life:
    """What a journal amounts to. Fields are for reading; only `apply` changes them."""

    agent_id: str
    length: int = 0
    """How many entries have been taken in; the next entry's number is one more."""
    spec: AgentSpec | None = None
    system: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, Block] = field(default_factory=dict)
    """Calls of the last reply that have no result yet, in the order the model made them."""
    tools_started: set[str] = field(default_factory=set)
    spawned: dict[str, str] = field(default_factory=dict)
    """tool_use id → agent id, for every child ever spawned."""
    background: set[str] = field(default_factory=set)
    """The tool_use ids whose child's end is not waited for."""
    answers: dict[str, Answered] = field(default_factory=dict)
    """What was answered about calls of the last reply."""
    mode: PermissionMode = "default"
    """The permission mode in force: the agent's own, until a person lets it leave plan mode."""
    waits: dict[str, Condition] = field(default_factory=dict)
    """Calls of the last reply that have parked, and for what."""
    wrote: bool = False
    """It has written to others, who may go on because of that."""
    leaving: bool = False
    """The agent agreed to be shut down: it ends instead of resting."""
    turns: int = 0
    turns_before: int = 0
    """Those of earlier runs: the limit of turns is one run's."""
    tool_calls: int = 0
    corrections: int = 0
    """How often an answer was sent back because it did not fit the schema."""
    last: Assistant | None = None
    last_words: Prompt | None = None
    """Set once last words were asked for: the next reply is the last."""
    warned: set[str] = field(default_factory=set)
    """Limits the agent has been warned of."""
    failures: int = 0
    failure: ModelFailed | None = None
    continuations: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    mail_taken: int = 0
    """Characters of mail that came since the last reply."""
    cursor: str = "0-0"
    finished: Finished | None = None
    files_read: dict[str, int] = field(default_factory=dict)
    """Resolved path → modification time (ns) when the agent last read or wrote it."""
    _calls: list[Block] = field(default_factory=list)
    _results: dict[str, Block] = field(default_factory=dict)
    _held: list[Block] = field(default_factory=list)

    # -- taking in -----------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Take in the next entry. Raises `JournalError` for one that cannot follow."""
        if (self.finished is None) == isinstance(entry, Resumed):
            raise JournalError(
                f"agent {self.agent_id}: entry {self.length + 1} ({entry.kind}) "
                f"{'follows' if self.finished else 'does not follow'} the end of a run"
            )
        if (self.spec is None) != isinstance(entry, Started):
            raise JournalError(f"agent {self.agent_id}: entry {self.length + 1} is {entry.kind}; a life starts once")
        self.length += 1
        match entry:
            case Started():
                self.spec, self.system, self.tools = entry.spec, entry.system, entry.tools
                self.mode = entry.spec.mode
            case Prompt():
                self._say({"type": "text", "text": entry.text})
                if entry.purpose == "last_words":
                    self.last_words = entry
                elif entry.purpose == "warning":
                    self.warned.add(entry.limit)
                elif entry.purpose == "schema":
                    self.corrections += 1
            case Mail():
                self.cursor = entry.cursor
                self.mail_taken += len(entry.text)
                self._say({"type": "text", "text": entry.text})
            case Assistant():
                self._reply(entry)
            case ModelFailed():
                self.failures += 1
                self.failure = entry
            case ToolStarted():
                self._pending_call(entry.tool_use_id)
                self.tools_started.add(entry.tool_use_id)
            case ToolFinished():
                self._result(entry)
            case Spawned():
                self.spawned.update(entry.children)
                self.background.update(entry.background)
            case Parked():
                if entry.tool_use_id:
                    self.waits[entry.tool_use_id] = entry.condition
            case Answered():
                self._pending_call(entry.tool_use_id)
                self.answers[entry.tool_use_id] = entry
                self.mode = entry.mode or self.mode
            case Resumed():
                self._go_on()
            case Finished():
                self.finished = entry

    def inherit(self, parent: Life) -> None:
        """Begin a fork: take over the parent's conversation, byte for byte, with a result for each call that has none yet."""
        self.system, self.tools = parent.system, parent.tools
        self.messages = [dict(message) for message in parent.messages]
        self.files_read = dict(parent.files_read)
        if parent.pending:
            results = [
                parent._results.get(
                    call["id"], {"type": "tool_result", "tool_use_id": call["id"], "content": FORKED_TEXT}
                )
                for call in parent._calls
            ]
            self.messages.append({"role": "user", "content": results})

    def _go_on(self) -> None:
        self.finished = self.failure = self.last_words = None
        self.failures = self.continuations = self.corrections = 0
        self.turns_before = self.turns
        self.leaving = False
        self.warned = set()
        if not self.pending:
            self.last = None

    def _say(self, block: Block) -> None:
        if self.pending:
            self._held.append(block)
        else:
            self._extend_user([block])

    def _extend_user(self, blocks: list[Block]) -> None:
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].extend(blocks)
        else:
            self.messages.append({"role": "user", "content": list(blocks)})

    def _reply(self, entry: Assistant) -> None:
        self.turns += 1
        self.mail_taken = 0
        self.failures, self.failure = 0, None
        self.usage += entry.usage
        self.cost_usd += entry.cost_usd
        self.continuations = self.continuations + 1 if entry.stop_reason == "max_tokens" else 0
        self.last = entry
        if entry.content:
            self.messages.append({"role": "assistant", "content": entry.content})
        self._calls = [block for block in entry.content if block.get("type") == "tool_use"]
        self._results = {}
        self.pending = {call["id"]: call for call in self._calls}
        self.tools_started = set()
        self.waits, self.answers = {}, {}

    def _pending_call(self, tool_use_id: str) -> None:
        if tool_use_id not in self.pending:
            raise JournalError(f"agent {self.agent_id}: entry {self.length} names the call {tool_use_id}, not pending")

    def _result(self, entry: ToolFinished) -> None:
        self._pending_call(entry.tool_use_id)
        block: Block = {"type": "tool_result", "tool_use_id": entry.tool_use_id, "content": entry.blocks or entry.text}
        if entry.is_error:
            block["is_error"] = True
        self.files_read.update(entry.files)
        self.tool_calls += 1
        self._results[entry.tool_use_id] = block
        call = self.pending.pop(entry.tool_use_id)
        if call["name"] == SEND_TOOL and not entry.is_error:
            self.wrote = True
            given = call["input"]
            self.leaving = self.leaving or (given.get("kind") == "shutdown_response" and given.get("approve") is True)
        if not self.pending:
            self._extend_user([self._results[done["id"]] for done in self._calls])
            held, self._held = self._held, []
            self._extend_user(held)

    # -- reading -------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The text of the last reply, its blocks joined; empty when there is none."""
        if self.last is None:
            return ""
        return "\n\n".join(b["text"] for b in self.last.content if b.get("type") == "text" and b.get("text")).strip()

    def tool_names(self) -> set[str]:
        """The tools the agent has."""
        return {tool["name"] for tool in self.tools}


def fold(agent_id: str, entries: Iterable[Entry], journal_of: Callable[[str], Iterable[Entry]] | None = None) -> Life:
    """The life that `entries` tell; `journal_of` answers another agent's entries, for the beginning of a fork."""
    life = Life(agent_id)
    for entry in entries:
        life.apply(entry)
        if isinstance(entry, Started) and entry.spec.fork is not None:
            parent_id = entry.spec.parent_id
            if journal_of is None or parent_id is None:
                raise JournalError(f"agent {agent_id}: it is a fork, and the journal it begins with was not given")
            life.inherit(fold(parent_id, islice(journal_of(parent_id), entry.spec.fork)))
    return life


# -- what comes next -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begin:
    """The journal is empty: write `started` and the task."""


@dataclass(frozen=True)
class CallModel:
    """Ask the model for the next reply."""

    tools_allowed: bool = True
    not_before: float = 0.0
    """After a failed attempt: wait until this time (Unix seconds) first."""


@dataclass(frozen=True)
class RunTools:
    """Run these calls: several that have no effects, together, or a single one that has."""

    calls: list[Block]


@dataclass(frozen=True)
class Settle:
    """Write these results: the calls will not be run."""

    results: list[ToolFinished]


@dataclass(frozen=True)
class SpawnAgents:
    """Start a child for each of these calls, all together."""

    calls: list[Block]


@dataclass(frozen=True)
class CollectChildren:
    """Take in the results of these children (tool_use id → agent id), waiting for those that still live."""

    children: dict[str, str]


@dataclass(frozen=True)
class SendMessages:
    """Send what these calls say, in this order, and write each one's result in the same step as its message."""

    calls: list[Block]


@dataclass(frozen=True)
class WaitAgents:
    """Answer this call, which waits for other agents or for tasks; `since` is what it has already parked for."""

    call: Block
    since: Condition | None


@dataclass(frozen=True)
class AwaitMail:
    """The agent was resumed: the message that did it comes first."""


@dataclass(frozen=True)
class Rest:
    """Nothing is left to do: wait for those who still work for the agent, and end if there are none."""

    finished: Finished


@dataclass(frozen=True)
class Say:
    """Put this text into the conversation first."""

    prompt: Prompt


@dataclass(frozen=True)
class End:
    """Write the last entry."""

    finished: Finished


@dataclass(frozen=True)
class Done:
    """The life is over."""


Action = (
    Begin
    | CallModel
    | RunTools
    | Settle
    | SpawnAgents
    | CollectChildren
    | SendMessages
    | WaitAgents
    | AwaitMail
    | Say
    | Rest
    | End
    | Done
)


def next_action(life: Life, has_effects: Callable[[str], bool]) -> Action:
    """What the agent does next. Pure: the same journal gives the same answer, anywhere, at any time."""
    if life.finished is not None:
        return Done()
    if life.spec is None:
        return Begin()
    if not life.messages:
        return Say(Prompt(text=life.spec.prompt or "(The task is empty.)"))
    if life.pending:
        return _next_for_calls(life, has_effects)
    if life.failure is not None:
        return _next_after_failure(life, life.failure)
    if life.messages[-1]["role"] == "assistant" or (life.last is not None and not life.last.content):
        # Resumed, and what the new run is about is still in the mailbox.
        return AwaitMail() if life.last is None else _next_after_reply(life)
    if life.turns - life.turns_before >= life.spec.limits.max_turns and not life.last_words:
        return Say(last_words("turns", f"You have used all of your {life.turns - life.turns_before} turns."))
    return CallModel(tools_allowed=life.last_words is None)


def last_words(limit: Literal["turns", "tokens", "budget", "time"], why: str) -> Prompt:
    """The runtime's request for a final reply, so that work at a limit is not lost."""
    text = (
        f"{why} No further tools can be used. Give your final answer now: what you found or changed, "
        "what is left to do, and anything the reader must know."
    )
    return Prompt(text=text, purpose="last_words", limit=limit)


def _next_for_calls(life: Life, has_effects: Callable[[str], bool]) -> Action:
    assert life.last is not None
    calls = list(life.pending.values())
    if life.last.stop_reason == "max_tokens":
        return Settle([ToolFinished(tool_use_id=call["id"], text=CUT_OFF_TEXT, is_error=True) for call in calls])
    if life.last_words:
        text = "No tools are left to you: this call was not run."
        return Settle([ToolFinished(tool_use_id=call["id"], text=text, is_error=True) for call in calls])
    interrupted = [call["id"] for call in calls if call["id"] in life.tools_started]
    if interrupted:
        return Settle([ToolFinished(tool_use_id=i, text=INTERRUPTED_TEXT, is_error=True) for i in interrupted])
    names = life.tool_names()
    spawning = [call for call in calls if call["name"] == SPAWN_TOOL and SPAWN_TOOL in names]
    peers = [call for call in calls if call["name"] in PEER_TOOLS and call["name"] in names]
    waiting = [call for call in calls if call["name"] in WAIT_TOOLS and call["name"] in names]
    # Children see what this reply's other calls did, so those run first.
    ordinary = [call for call in calls if call not in (*spawning, *peers, *waiting)]
    if ordinary:
        batch = []
        for call in ordinary:
            if has_effects(call["name"]) or call["name"] in ORDERED_TOOLS:
                break
            batch.append(call)
        return RunTools(batch or ordinary[:1])
    unspawned = [call for call in spawning if call["id"] not in life.spawned]
    if unspawned:
        return SpawnAgents(unspawned)
    background = [call["id"] for call in spawning if call["id"] in life.background]
    if background:
        return Settle([ToolFinished(tool_use_id=i, text=_background_text(life.spawned[i])) for i in background])
    letters = list(takewhile(lambda call: call["name"] == SEND_TOOL, peers))
    if peers:
        return SendMessages(letters) if letters else RunTools(peers[:1])
    if waiting:
        return WaitAgents(waiting[0], life.waits.get(waiting[0]["id"]))
    return CollectChildren({call["id"]: life.spawned[call["id"]] for call in spawning})


def _background_text(agent_id: str) -> str:
    return (
        f"Started in the background: {agent_id}. Its result will arrive by itself as a task-notification; "
        "go on with other work, or wait with WaitAgents. Do not ask for its state again and again."
    )


def _next_after_failure(life: Life, failure: ModelFailed) -> Action:
    if failure.permanent:
        return End(Finished(state="failed", text=life.text(), reason=failure.error))
    if life.failures >= MAX_MODEL_FAILURES:
        reason = f"the model could not be reached in {life.failures} attempts; the last one: {failure.error}"
        return End(Finished(state="failed", text=life.text(), reason=reason))
    return CallModel(tools_allowed=life.last_words is None, not_before=failure.retry_at)


def _next_after_reply(life: Life) -> Action:
    assert life.last is not None
    text = life.text()
    match life.last.stop_reason:
        case "pause_turn" if life.last.content:
            return CallModel(tools_allowed=life.last_words is None)
        case "refusal":
            return End(Finished(state="failed", text=text, reason="the model refused to answer"))
        case "max_tokens" if life.continuations <= MAX_CONTINUATIONS and not life.last_words:
            return Say(Prompt(text=CONTINUE_TEXT, purpose="continue"))
        case "max_tokens":
            return End(Finished(state="completed", text=text, reason="the answer was cut off at its length limit"))
        case "model_context_window_exceeded":
            return End(
                Finished(state="failed", text=text, reason="the conversation no longer fits the model's context")
            )
    if life.last_words is not None and life.last_words.limit:
        state: Literal["completed", "timed_out"] = "timed_out" if life.last_words.limit == "time" else "completed"
        return End(Finished(state=state, text=text, reason=f"stopped at its limit of {life.last_words.limit}"))
    assert life.spec is not None
    finished = Finished(state="completed", text=text)
    schema = life.spec.definition.result_schema
    if schema is not None:
        data, error = read_result(text, schema)
        if error and life.corrections < MAX_CORRECTIONS:
            return Say(Prompt(text=error, purpose="schema"))
        if error:
            return End(Finished(state="failed", text=text, reason=f"the answer does not fit its schema: {error}"))
        finished = finished.model_copy(update={"data": data})
    if (life.background or life.wrote or life.spec.teammate) and not life.leaving:
        return Rest(finished)
    return End(finished)
