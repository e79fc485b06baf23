"""The fold: from a journal to what the agent knows. Pure.

`Life.apply` takes in one entry; `swarm.agent.decision` says what comes after. Both depend on nothing but the journal (and the kinds
of tools), so the next turn, a restart after a crash and a wake a week later are one code path.

Guarantees: no `tool_use` is ever sent without its `tool_result`; results come first in the user message that answers them;
messages only ever grow at the end, so a request's prefix stays byte for byte what the last request sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from swarm.agent import notes
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
from swarm.agent.spec import AgentSpec
from swarm.definitions.model import PermissionMode
from swarm.definitions.tools import Kind, row_of
from swarm.errors import JournalError
from swarm.models import Block, Usage


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
        # One that nobody ran may be ended from outside, and go on.
        if isinstance(entry, Started) == (self.spec is not None) and not isinstance(entry, Finished | Resumed):
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
                    call["id"], {"type": "tool_result", "tool_use_id": call["id"], "content": notes.FORKED}
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
        if self.kind_of(call) is Kind.SEND and not entry.is_error:
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

    def kind_of(self, call: Block) -> Kind:
        """What carrying a call out means; one of a tool that the agent does not have is only refused, which changes nothing."""
        return row_of(call["name"]).kind if call["name"] in self.tool_names() else Kind.LOOK


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
