"""An agent's state: the folded journal, and the values derived from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from swarm.agent.blocks import BYTES_PER_TOKEN, text_of
from swarm.agent.coordination.ledger import WorkLedger
from swarm.agent.cut import Context
from swarm.agent.entries import (
    Advanced,
    Answered,
    Assistant,
    Finished,
    Grading,
    Hooked,
    HooksBegun,
    ModelFailed,
    Prompt,
    Ruled,
    Switched,
    ToolFinished,
    Verdict,
)
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.core.usage import Charge, Usage
from swarm.definitions.model import PermissionMode
from swarm.definitions.tools import Kind, row_of
from swarm.models import Block
from swarm.models.encoder import encode_tools


@dataclass
class ReplyText:
    """Texts of the agent's run. A reply that was cut off and continued is one text."""

    said: str = ""
    """Latest text of this run that is not empty, even if incomplete."""
    parts: list[str] = field(default_factory=list)
    """Parts of the last reply."""
    goes_on: bool = False
    """Whether the next reply is the rest of the last one."""

    def take(self, reply: Assistant) -> None:
        """Take in the next reply."""
        self.parts = self._with(reply)
        self.goes_on = reply.stop_reason == "pause_turn"
        self.said = self.text() or self.said

    def break_off(self) -> None:
        """Drop the last reply: the next one does not continue it."""
        self.parts, self.goes_on = [], False

    def text(self) -> str:
        """Return the text of the last reply, from all its parts; empty when there is none."""
        return "".join(self.parts).strip()

    def text_at_hand(self) -> str:
        """Return the text of the last reply, or else the last text before it in this run."""
        return self.text() or self.said

    def text_after(self, reply: Assistant) -> str:
        """Return `text_at_hand` as it will be after this reply."""
        return "".join(self._with(reply)).strip() or self.said

    def _with(self, reply: Assistant) -> list[str]:
        return [*(self.parts if self.goes_on else ()), text_of(reply.content)]


@dataclass
class HookState:
    """Results of hooks: past events, and decisions that are not in the conversation."""

    begun: set[str] = field(default_factory=set)
    """Events whose hooks have begun, without a known result."""
    done: set[str] = field(default_factory=set)
    """Events since the last reply whose hooks have run."""
    leave: dict[str, Hooked] = field(default_factory=dict)
    """Hook decisions to ask about or allow calls of the last reply."""
    ended: dict[str, Block] = field(default_factory=dict)
    """Calls of the last reply that were carried out, unchanged."""
    sent_back: int = 0
    """How many times in a row hooks sent the agent back from its end, by a refusal or by text."""
    focus: str = ""
    """Content that the next summary must hold above all."""
    stopped: str = ""
    """Reason to end this run."""
    profile: str = ""
    """Shell text that runs before each command of the shell tool."""

    def begin(self, entry: HooksBegun) -> None:
        """Record that hooks are about to run."""
        self.begun.add(entry.event)

    def end(self, entry: Hooked) -> None:
        """Record the hooks' results, which can be unknown for good."""
        self.begun.discard(entry.event)
        self.done.add(entry.event)
        if entry.decision in ("ask", "allow"):
            self.leave[entry.tool_use_id] = entry
        if entry.name in ("Stop", "SubagentStop", "TeammateIdle"):
            self.sent_back = self.sent_back + 1 if entry.text else 0
        if entry.name == "PreCompact":
            self.focus = entry.text
        self.stopped = self.stopped or entry.stop
        if entry.profile and entry.profile not in self.profile:
            self.profile = f"{self.profile}\n{entry.profile}".strip()

    def forget_turn(self) -> None:
        """Forget the last reply's calls, because a new reply has come."""
        if self.done or self.ended:
            self.done, self.leave, self.ended = set(), {}, {}


@dataclass
class HistoryState:
    """The folded journal. Read only, as are its parts: only `swarm.agent.history` changes it."""

    agent_id: str
    length: int = 0
    """Number of entries taken in; the next entry's number is one more."""
    spec: AgentSpec | None = None
    opened: int = 1
    """Number of the entry that holds the prefix of its requests."""
    system: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    """Kinds of tools that are not in the table of tools."""
    offers: dict[str, str] = field(default_factory=dict)
    """MCP server → digest of its list of tools that the agent's own follow."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, Block] = field(default_factory=dict)
    """Calls of the last reply that have no result yet, in the order the model made them."""
    tools_started: set[str] = field(default_factory=set)
    commit: str = ""
    """Last commit in the journal: the workspace at that time."""
    spawned: dict[str, str] = field(default_factory=dict)
    """tool_use id → agent id, for every child ever spawned."""
    notes: dict[str, str] = field(default_factory=dict)
    """tool_use id → first line of the result of starting that agent."""
    ledger: WorkLedger | None = None
    """Orders to other agents, if coordination rules apply."""
    background: set[str] = field(default_factory=set)
    """tool_use ids of children that are not waited for."""
    answers: dict[str, Answered] = field(default_factory=dict)
    """Answers about calls of the last reply."""
    ruled: dict[str, Ruled] = field(default_factory=dict)
    """A small model's rulings on calls of the last reply."""
    mode: PermissionMode = "default"
    """The permission mode in force: the agent's own, until a person lets it leave plan mode."""
    before_plan: PermissionMode | None = None
    """Mode before the agent itself entered plan mode."""
    waits: dict[str, Condition] = field(default_factory=dict)
    """Parked calls of the last reply and their conditions."""
    wrote: bool = False
    """The agent has written to others, which can continue because of that."""
    leaving: bool = False
    """The agent agreed to be shut down: it ends instead of resting."""
    broken_off: set[str] = field(default_factory=set)
    """Calls that had not begun when the agent was stopped. They are not run when it continues."""
    lived: list[Advanced | ToolFinished] = field(default_factory=list)
    """Entries that a replay gives to a workflow's program, in order."""
    turns: int = 0
    turns_before: int = 0
    """Turns of earlier runs, because the limit applies to one run."""
    turns_elsewhere: int = 0
    """Turns of a replayed job, which do not count either."""
    plan: str = ""
    """A plan that no one could approve: this run's answer."""
    tool_calls: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    """Verdicts on this run's work, oldest first."""
    judged: dict[str, Verdict] = field(default_factory=dict)
    """Verdicts on the last reply, by source."""
    grading: Grading | None = None
    """The grader at work."""
    corrections: int = 0
    """Number of answers that were sent back because they did not fit the schema."""
    last: Assistant | None = None
    reply_text: ReplyText = field(default_factory=ReplyText)
    final_answer: Prompt | None = None
    """The request for a final answer: the next reply is the last."""
    final_answer_given: bool = False
    call_ids: set[str] = field(default_factory=set)
    """Ids of all calls of the conversation."""
    known_tokens: int = 0
    """Length with the last reply, as the model's server counted it; 0: not counted yet."""
    new_bytes: int = 0
    """Bytes added since then."""
    warned: set[str] = field(default_factory=set)
    """Limits that the agent was warned of."""
    failures: int = 0
    failure: ModelFailed | None = None
    unanswered: int = 0
    """Failures of the model in use after which its server did not say when to ask again."""
    unfit: int = 0
    """Refusals of the model in use that told facts about it."""
    away_since: float = 0.0
    """Start of the time without a reply, Unix seconds; another model that is silent, too, does not end it. 0: none."""
    switched: Switched | None = None
    """The last change of the model, if any."""
    chosen_id: str = ""
    """Id of a person's last choice of a model that was considered."""
    chosen: str = ""
    """Full id of the model that a person chose, to which later runs return; empty: the specification's."""
    switched_in: int = 0
    """Number of the run in which it happened."""
    unusable: set[str] = field(default_factory=set)
    """Models of this run that are unknown or forbidden, or whose server asks not to try again."""
    continuations: int = 0
    paid: Charge = field(default_factory=Charge)
    mail_taken: int = 0
    """Characters of mail that came since the last reply."""
    cursor: str = "0-0"
    began_at: float = 0.0
    """Start of the run, by the server's clock."""
    finished: Finished | None = None
    guidance: str = ""
    """Instruction files at the beginning of the first message."""
    guided: set[str] = field(default_factory=set)
    """Sources of instruction files that came with results."""
    files_read: dict[str, int] = field(default_factory=dict)
    """Resolved path → modification time (ns) when the agent last read or wrote it."""
    servers: dict[str, str] = field(default_factory=dict)
    """MCP server → number of the start that carried out the last call."""
    context: Context = field(default_factory=Context)
    """The part of the conversation that requests still hold."""
    hooks: HookState = field(default_factory=HookState)
    files_seen_in: dict[str, str] = field(default_factory=dict)
    """Resolved path → last commit in the journal at that time."""
    _calls: list[Block] = field(default_factory=list)
    _results: dict[str, Block] = field(default_factory=dict)
    _held: list[Block] = field(default_factory=list)

    @property
    def usage(self) -> Usage:
        """Return all tokens paid for."""
        return self.paid.usage

    def _end_outage(self) -> None:
        """Forget the failures since the last reply."""
        self.failures = self.unanswered = self.unfit = 0
        self.failure, self.away_since = None, 0.0

    def model_of(self, spec: AgentSpec) -> str:
        """Return the full id of the model that the agent of this spec asks now."""
        return spec.model if self.switched is None else self.switched.model

    def as_now(self, spec: AgentSpec) -> AgentSpec:
        """Return the spec with the model in use as the first one, followed by its possible successors."""
        if self.switched is None:
            return spec
        from swarm.agent.chains import successors

        return spec.model_copy(update={"model": self.switched.model, "fallbacks": tuple(successors(self, spec))})

    def all_at_hand(self) -> str:
        """Return all texts at hand without the model: the reply's, and the last children's results."""
        results = [
            str(self._results[call["id"]]["content"])
            for call in self._calls
            if self.kind_of(call) is Kind.SPAWN and call["id"] in self._results
        ]
        return "\n\n".join(filter(None, [self.reply_text.text_at_hand(), *results]))

    def tokens_to_send(self) -> int:
        """Estimate the next request's tokens: the server's last count plus later bytes."""
        fresh = math.ceil(self.new_bytes / BYTES_PER_TOKEN)
        return fresh + (self.known_tokens or self.prefix_tokens())

    def prefix_tokens(self) -> int:
        """Estimate the tokens of the system prompt and the tools."""
        return math.ceil((len(self.system.encode()) + len(encode_tools(self.tools))) / BYTES_PER_TOKEN)

    def result_of(self, tool_use_id: str) -> Block:
        """Return the result of a call of the last reply, in the model's form."""
        return self._results[tool_use_id]

    @property
    def last_calls(self) -> list[Block]:
        """The calls of the last reply."""
        return self._calls

    def known_result(self, tool_use_id: str) -> Block | None:
        """Return the result of a call of the last reply, in the model's form, if there is one."""
        return self._results.get(tool_use_id)

    def tool_names(self) -> set[str]:
        """Return the names of the agent's tools."""
        names = {tool["name"] for tool in self.tools}
        own = None if self.spec is None else self.spec.has_tools
        return names if own is None else names & set(own)

    def after_plan(self) -> PermissionMode | None:
        """Return the most permissive mode after plan approval; None: it cannot leave plan mode."""
        return self.before_plan or (None if self.spec is None else self.spec.after_plan)

    def kind_of(self, call: Block) -> Kind:
        """Return a call's kind. Calls of missing tools are only refused, so they change nothing."""
        if call["name"] not in self.tool_names():
            return Kind.LOOK
        return Kind(self.kinds[call["name"]]) if call["name"] in self.kinds else row_of(call["name"]).kind
