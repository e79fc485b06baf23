"""What an agent knows: the values that its journal amounts to, and what can be read from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from swarm.agent.blocks import BYTES_PER_TOKEN, text_of
from swarm.agent.coordination.ledger import WorkLedger
from swarm.agent.cut import Context
from swarm.agent.entries import (
    Answered,
    Assistant,
    Finished,
    Grading,
    Hooked,
    HooksBegun,
    ModelFailed,
    Prompt,
    Ruled,
    Verdict,
)
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.definitions.model import PermissionMode
from swarm.definitions.tools import Kind, row_of
from swarm.models import Block, Usage
from swarm.models.encoder import encode_tools


@dataclass
class ReplyText:
    """What it has said in its run. A reply that was cut off and goes on in the next one is one text."""

    said: str = ""
    """The latest text of this run that is not empty, however it goes on."""
    parts: list[str] = field(default_factory=list)
    """The last reply, in the parts that it came in."""
    goes_on: bool = False
    """Whether the next reply is the rest of the last one."""

    def take(self, reply: Assistant) -> None:
        """Take in the next reply."""
        self.parts = self._with(reply)
        self.goes_on = reply.stop_reason == "pause_turn"
        self.said = self.text() or self.said

    def break_off(self) -> None:
        """What comes next is not the rest of the last reply, which is none any more."""
        self.parts, self.goes_on = [], False

    def text(self) -> str:
        """The text of the last reply, of all its parts; empty when there is none."""
        return "".join(self.parts).strip()

    def text_at_hand(self) -> str:
        """The text of the last reply, or else what was said last before it in this run."""
        return self.text() or self.said

    def text_after(self, reply: Assistant) -> str:
        """What `text_at_hand` will be once this reply is taken in."""
        return "".join(self._with(reply)).strip() or self.said

    def _with(self, reply: Assistant) -> list[str]:
        return [*(self.parts if self.goes_on else ()), text_of(reply.content)]


@dataclass
class HookState:
    """What hooks have said: which events they have been run for, and what they decided that is not in the conversation."""

    begun: set[str] = field(default_factory=set)
    """Events whose hooks have begun, and of which nothing more is known yet."""
    done: set[str] = field(default_factory=set)
    """Events since the last reply whose hooks have run."""
    leave: dict[str, Hooked] = field(default_factory=dict)
    """What was decided about calls of the last reply that a hook wants asked about, or allowed."""
    ended: dict[str, Block] = field(default_factory=dict)
    """Calls of the last reply that were carried out, as they were."""
    blocks: int = 0
    """How often in a row an end was refused."""
    focus: str = ""
    """What the next summary must hold above all."""
    stopped: str = ""
    """Why this run is to end."""

    def begin(self, entry: HooksBegun) -> None:
        """Hooks are about to run."""
        self.begun.add(entry.event)

    def end(self, entry: Hooked) -> None:
        """They have run, or nobody will ever know."""
        self.begun.discard(entry.event)
        self.done.add(entry.event)
        if entry.decision in ("ask", "allow"):
            self.leave[entry.tool_use_id] = entry
        if entry.name in ("Stop", "SubagentStop", "TeammateIdle"):
            self.blocks = self.blocks + 1 if entry.decision == "block" else 0
        if entry.name == "PreCompact":
            self.focus = entry.text
        self.stopped = self.stopped or entry.stop

    def forget_turn(self) -> None:
        """A reply has come: what was about the last one's calls is over."""
        if self.done or self.ended:
            self.done, self.leave, self.ended = set(), {}, {}


@dataclass
class HistoryState:
    """What a journal amounts to. For reading, as its parts; only `swarm.agent.history` changes it."""

    agent_id: str
    length: int = 0
    """How many entries have been taken in; the next entry's number is one more."""
    spec: AgentSpec | None = None
    opened: int = 1
    """The number of the entry that holds what its requests begin with."""
    system: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    """What calls of some tools mean, where the table of tools does not know it."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, Block] = field(default_factory=dict)
    """Calls of the last reply that have no result yet, in the order the model made them."""
    tools_started: set[str] = field(default_factory=set)
    commit: str = ""
    """The last commit that the journal names: what the workspace held then."""
    spawned: dict[str, str] = field(default_factory=dict)
    """tool_use id → agent id, for every child ever spawned."""
    notes: dict[str, str] = field(default_factory=dict)
    """tool_use id → what the result of starting that agent begins with."""
    ledger: WorkLedger | None = None
    """What it has ordered of others, if it is held to rules about that."""
    background: set[str] = field(default_factory=set)
    """The tool_use ids whose child's end is not waited for."""
    answers: dict[str, Answered] = field(default_factory=dict)
    """What was answered about calls of the last reply."""
    ruled: dict[str, Ruled] = field(default_factory=dict)
    """What a small model said of calls of the last reply."""
    mode: PermissionMode = "default"
    """The permission mode in force: the agent's own, until a person lets it leave plan mode."""
    before_plan: PermissionMode | None = None
    """The mode that it entered plan mode from by itself."""
    waits: dict[str, Condition] = field(default_factory=dict)
    """Calls of the last reply that have parked, and for what."""
    wrote: bool = False
    """It has written to others, who may go on because of that."""
    leaving: bool = False
    """The agent agreed to be shut down: it ends instead of resting."""
    broken_off: set[str] = field(default_factory=set)
    """Calls that had not begun when the agent was stopped: they are not run when it goes on."""
    turns: int = 0
    turns_before: int = 0
    """Those of earlier runs: the limit of turns is one run's."""
    turns_elsewhere: int = 0
    """Those of the job that it was replayed from, which have no part in the limit either."""
    plan: str = ""
    """A plan about which nobody could be asked: this run's answer."""
    tool_calls: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    """What was said of this run's work, oldest first."""
    judged: dict[str, Verdict] = field(default_factory=dict)
    """What was said of the last reply, by who said it."""
    grading: Grading | None = None
    """The grader that is at work on it."""
    corrections: int = 0
    """How often an answer was sent back because it did not fit the schema."""
    last: Assistant | None = None
    reply_text: ReplyText = field(default_factory=ReplyText)
    final_answer: Prompt | None = None
    """Set once last words were asked for: the next reply is the last."""
    final_answer_given: bool = False
    call_ids: set[str] = field(default_factory=set)
    """The ids of all calls of the conversation."""
    known_tokens: int = 0
    """How long the conversation was with the last reply, as the model's server counted it; 0: nobody has counted yet."""
    new_bytes: int = 0
    """What has come to it since, in bytes."""
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
    began_at: float = 0.0
    """When its run began, by the server's clock."""
    finished: Finished | None = None
    guidance: str = ""
    """The instruction files that its first message began with."""
    guided: set[str] = field(default_factory=set)
    """The sources of instruction files that came with results."""
    files_read: dict[str, int] = field(default_factory=dict)
    """Resolved path → modification time (ns) when the agent last read or wrote it."""
    servers: dict[str, str] = field(default_factory=dict)
    """By MCP server, which start of it carried out the last call."""
    context: Context = field(default_factory=Context)
    """How much of this its requests still hold."""
    hooks: HookState = field(default_factory=HookState)
    files_seen_in: dict[str, str] = field(default_factory=dict)
    """By the same paths, the commit that the journal named then."""
    _calls: list[Block] = field(default_factory=list)
    _results: dict[str, Block] = field(default_factory=dict)
    _held: list[Block] = field(default_factory=list)

    def all_at_hand(self) -> str:
        """What there is to return when the model cannot be asked any more: what was said, and what the last children returned."""
        results = [
            str(self._results[call["id"]]["content"])
            for call in self._calls
            if self.kind_of(call) is Kind.SPAWN and call["id"] in self._results
        ]
        return "\n\n".join(filter(None, [self.reply_text.text_at_hand(), *results]))

    def tokens_to_send(self) -> int:
        """About how many tokens the next request has: what the server counted last, and an estimate of what has come since."""
        fresh = math.ceil(self.new_bytes / BYTES_PER_TOKEN)
        return fresh + (self.known_tokens or self.prefix_tokens())

    def prefix_tokens(self) -> int:
        """About how many tokens the system prompt and the tools have."""
        return math.ceil((len(self.system.encode()) + len(encode_tools(self.tools))) / BYTES_PER_TOKEN)

    def result_of(self, tool_use_id: str) -> Block:
        """The result of a call of the last reply, as the model is given it."""
        return self._results[tool_use_id]

    def tool_names(self) -> set[str]:
        """The tools the agent has."""
        names = {tool["name"] for tool in self.tools}
        own = None if self.spec is None else self.spec.has_tools
        return names if own is None else names & set(own)

    def after_plan(self) -> PermissionMode | None:
        """The most it may be permitted once its plan is approved; None: it cannot leave plan mode."""
        return self.before_plan or (None if self.spec is None else self.spec.after_plan)

    def kind_of(self, call: Block) -> Kind:
        """What carrying a call out means; one of a tool that the agent does not have is only refused, which changes nothing."""
        if call["name"] not in self.tool_names():
            return Kind.LOOK
        return Kind(self.kinds[call["name"]]) if call["name"] in self.kinds else row_of(call["name"]).kind
